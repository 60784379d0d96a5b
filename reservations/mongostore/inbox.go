package mongostore

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"time"

	"github.com/headway-go/headway/internal/bucket"
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
	At       time.Time        `bson:"a"` // about the server's clock
	Requests []bucket.Request `bson:"q"`
}

// fingerprint distinguishes limits.
func fingerprint(l bucket.Limit) int64 {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%v", l) // a hash takes all
	return int64(h.Sum64())        //nolint:gosec // any 64 bits will do
}

func key(id int64) string { return strconv.FormatInt(id, 36) }

// answerTo is the field of the answers to an entry.
func answerTo(id int64) string { return fieldAnswers + "." + key(id) }

// fold answers the entries of the inbox that were left for the limit, then the requests, at now.
func (s state) fold(limit bucket.Limit, now time.Time, requests []bucket.Request) change {
	c := change{after: s.Bucket, answered: map[string][]bucket.Answer{}}
	if len(s.Inbox) > 0 {
		shape := fingerprint(limit)
		for _, e := range s.Inbox {
			_, done := c.answered[answerTo(e.ID)]
			if !done && e.Limit == shape && len(e.Requests) > 0 && fits(limit, e.Requests) {
				c.after, c.answered[answerTo(e.ID)] = bucket.Fold(c.after, limit, now, e.Requests)
				c.taken = append(c.taken, e.ID)
			} else if now.Sub(e.At).Abs() > entryKept {
				c.taken = append(c.taken, e.ID)
			}
		}
	}
	c.after, c.outcomes = bucket.Fold(c.after, limit, now, requests)
	for id, answers := range s.Answers {
		if len(answers) == 0 || now.Sub(answers[0].At).Abs() > entryKept {
			c.old = append(c.old, id)
		}
	}
	return c
}

// fits says whether the requests are such as a Limiter sends, as a document may have been changed by hand.
func fits(limit bucket.Limit, requests []bucket.Request) bool {
	return !slices.ContainsFunc(requests, func(r bucket.Request) bool { return !r.Fits(limit) })
}
