package mongostore

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/reservations/internal/stored"
)

// A process that lost twice leaves its requests in the inbox of the document, which does not change the tag. Every swap
// after that answers all requests of the inbox that its process has read, in their order. So does the swap of the
// process itself. Each loss is a win of another process, so a request waits for about two wins.

const (
	// inboxMost bounds the entries of a document.
	inboxMost = 128
	// entryKept is how long an entry of another limit, and an answer, is kept: their processes have ended.
	entryKept = 10 * time.Second
)

// entry is one call in the inbox.
type entry struct {
	ID       int64            `bson:"i"`
	Limit    int64            `bson:"l"` // the fingerprint of its limit
	At       int64            `bson:"a"` // about the server's clock, in nanoseconds
	Requests []bucket.Request `bson:"q"`
}

// reply is the answer to an entry.
type reply struct {
	At       int64          `bson:"a"` // nanoseconds on the server's clock
	Outcomes []outcomeReply `bson:"o"`
}

type outcomeReply struct {
	State   bucket.State `bson:"s"`
	Hold    int64        `bson:"h,omitempty"`
	RetryAt int64        `bson:"r,omitempty"`
}

func replyOf(outcomes []bucket.Answer) reply {
	r := reply{At: outcomes[0].At.UnixNano(), Outcomes: make([]outcomeReply, len(outcomes))}
	for i, o := range outcomes {
		r.Outcomes[i] = outcomeReply{State: o.State, Hold: int64(o.Hold), RetryAt: stored.Nanoseconds(o.RetryAt)}
	}
	return r
}

// outcomes is the inverse of replyOf, with a bucket that may be newer.
func (r reply) outcomes(b bucket.Bucket) []bucket.Answer {
	outcomes := make([]bucket.Answer, len(r.Outcomes))
	for i, o := range r.Outcomes {
		outcomes[i] = bucket.Answer{
			State: o.State, Hold: time.Duration(o.Hold), RetryAt: stored.Moment(o.RetryAt), At: time.Unix(0, r.At).UTC(),
			Bucket: b,
		}
	}
	return outcomes
}

// fingerprint distinguishes limits.
func fingerprint(l bucket.Limit) int64 {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%v", l) // a hash takes all
	return int64(h.Sum64())        //nolint:gosec // any 64 bits will do
}

func key(id int64) string { return strconv.FormatInt(id, 36) }

// fold answers the entries of the inbox that were left for the limit, then the requests, at now.
func (s state) fold(limit bucket.Limit, now time.Time, requests []bucket.Request) change {
	c := change{after: s.bucket, answered: map[int64][]bucket.Answer{}}
	if len(s.inbox) > 0 {
		shape := fingerprint(limit)
		for _, e := range s.inbox {
			if _, done := c.answered[e.ID]; !done && e.Limit == shape && len(e.Requests) > 0 && fits(limit, e.Requests) {
				c.after, c.answered[e.ID] = bucket.Fold(c.after, limit, now, e.Requests)
				c.taken = append(c.taken, e.ID)
			} else if now.Sub(stored.Moment(e.At)).Abs() > entryKept {
				c.taken = append(c.taken, e.ID)
			}
		}
	}
	c.after, c.outcomes = bucket.Fold(c.after, limit, now, requests)
	for id, r := range s.answers {
		if now.Sub(stored.Moment(r.At)).Abs() > entryKept {
			c.old = append(c.old, id)
		}
	}
	return c
}

// fits says whether the requests are such as a Limiter sends, as a document may have been changed by hand.
func fits(limit bucket.Limit, requests []bucket.Request) bool {
	return !slices.ContainsFunc(requests, func(r bucket.Request) bool { return !r.Fits(limit) })
}
