package mongostore

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/calls/pause"
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

// errNotLeft is matched when the document is not there or its inbox is full.
var errNotLeft = errors.New("no room in the inbox")

// errAnswerLost is matched when an entry was answered, and the answer is not there any more.
var errAnswerLost = errors.New("the answer is gone: the bucket was reset, or this process was too slow")

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

// leave puts the requests into the inbox, and competes until they are answered.
func (s *Store) leave(
	ctx context.Context, name string, limit bucket.Limit, requests []bucket.Request,
) (answers []bucket.Answer, err error) {
	mine := entry{ID: newTag(), Limit: fingerprint(limit), Requests: requests}
	seen, err := s.push(ctx, name, mine)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil && !errors.Is(err, bucket.ErrContended) { // else the entry was withdrawn
			s.memory.Delete(name)
			err = maybeApplied(err)
		}
	}()
	began, gone := time.Now(), false
	for wait := pauseMin; ; wait = min(2*wait, pauseMost) {
		if answers = seen.Answers[key(mine.ID)]; len(answers) == len(requests) {
			s.memory.saw(name, seen, key(mine.ID))
			return answers, nil
		}
		if gone || !slices.ContainsFunc(seen.Inbox, func(e entry) bool { return e.ID == mine.ID }) {
			return nil, &bucket.UnavailableError{Bucket: name, BucketOnly: true, Err: errAnswerLost}
		}
		c := seen.fold(limit, seen.Clock, nil)
		answers = c.answered[answerTo(mine.ID)]
		delete(c.answered, answerTo(mine.ID)) // needs no answer
		if err = s.swap(ctx, name, seen, c); !errors.Is(err, errLost) {
			return answers, err
		}
		if time.Since(began) > s.patience {
			if err = s.withdraw(ctx, name, mine.ID); !errors.Is(err, errLost) {
				return nil, err
			}
			gone = true // it was answered
		} else if err = pause.For(ctx, rand.N(wait)); err != nil { //nolint:gosec // jitter needs no secrecy
			return nil, &bucket.UnavailableError{Bucket: name, Err: err}
		}
		if seen, err = s.read(ctx, name, mine.ID); err != nil {
			return nil, err
		}
	}
}

// push adds an entry to the inbox, removes answers that were read, and returns the document.
func (s *Store) push(ctx context.Context, name string, e entry) (state, error) {
	last := s.memory.Get(name)
	e.At = s.clock(last.now())
	update := bson.D{to("$push", bson.D{to(fieldInbox, e)}), to("$currentDate", bson.D{to(fieldClock, true)})}
	if unset := unsetAnswers(last.discarded); len(unset) > 0 {
		update = append(update, to("$unset", unset))
	}
	filter := bson.D{
		to("_id", name), to(fieldTag, bson.D{to("$exists", true)}),
		to(fieldInbox+"."+strconv.Itoa(inboxMost-1), bson.D{to("$exists", false)}),
	}
	after := options.FindOneAndUpdate().SetReturnDocument(options.After).SetProjection(returned(1, e.ID))
	var raw bson.Raw
	err := s.send(ctx, name, func(ctx context.Context) (err error) {
		raw, err = s.buckets.FindOneAndUpdate(ctx, filter, stored.Encode(update), after).Raw()
		return err
	})
	if errors.Is(err, errLost) {
		return state{}, errNotLeft
	}
	var seen state
	if err == nil {
		seen, err = s.state(name, raw)
		err = maybeApplied(err)
	}
	if err != nil {
		s.memory.Delete(name)
		return state{}, err
	}
	s.memory.pushed(name, seen, len(last.discarded))
	return seen, nil
}

// maybeApplied is the error of a process whose entry another process may answer.
func maybeApplied(err error) error {
	if u := (*bucket.UnavailableError)(nil); errors.As(err, &u) {
		u.Applied = bucket.AppliedMaybe
	}
	return err
}

// withdraw takes an entry back and returns why its process gave up. The error matches errLost where the entry was
// answered.
func (s *Store) withdraw(ctx context.Context, name string, id int64) error {
	err := s.send(ctx, name, func(ctx context.Context) error {
		return s.buckets.FindOneAndUpdate(ctx, bson.D{to("_id", name), to(fieldInbox+".i", id)}, pull([]int64{id})).Err()
	})
	if err != nil {
		return err
	}
	err = fmt.Errorf("%w: gave up after %v", bucket.ErrContended, s.patience)
	return &bucket.UnavailableError{Bucket: name, Applied: bucket.AppliedNo, Err: err}
}

func pull(ids []int64) bson.D {
	return bson.D{to("$pull", bson.D{to(fieldInbox, bson.D{to("i", bson.D{to("$in", ids)})})})}
}

func unsetAnswers(ids []string) bson.D {
	unset := make(bson.D, len(ids))
	for i, id := range ids {
		unset[i] = to(fieldAnswers+"."+id, 1)
	}
	return unset
}
