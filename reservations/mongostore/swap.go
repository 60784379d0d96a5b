package mongostore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/calls/pause"
	"github.com/headway-go/headway/reservations/internal/stored"
)

const (
	// patience is how long a call competes before it gives up.
	patience  = 3 * time.Second
	pauseMin  = time.Millisecond
	pauseMost = 20 * time.Millisecond
	// lossesMost is how often a call loses before it leaves its requests in the inbox.
	lossesMost = 2
)

// apply reads the bucket, folds the requests and writes the result where no other
// process wrote meanwhile: two round trips, and one for a process that wrote last.
func (s *Store) apply(
	ctx context.Context, limit bucket.Limit, key string, requests []bucket.Request,
) ([]bucket.Answer, error) {
	if len(requests) == 0 {
		return nil, nil
	}
	name := bucket.Name(limit.Name, key)
	if known, now, ok := s.memory.steady(name, s.now); ok {
		c := known.fold(limit, now, requests)
		if c.after.Version != known.Bucket.Version { // else the answer needs the newest state
			if err := s.swap(ctx, name, known, c); !errors.Is(err, errLost) {
				return c.outcomes, err
			}
		}
	}
	wait := pauseMin
	for n, began := 0, time.Now(); time.Since(began) < s.patience; n++ {
		if n >= lossesMost || s.memory.busy(name) && !allDry(requests) {
			outcomes, err := s.leave(ctx, name, limit, requests)
			if !errors.Is(err, errNotLeft) {
				return outcomes, err
			}
		}
		before, err := s.read(ctx, name, 0)
		if err != nil {
			return nil, err
		}
		c := before.fold(limit, before.Clock, requests)
		if c.after.Version == before.Bucket.Version {
			return c.outcomes, nil
		}
		if err = s.swap(ctx, name, before, c); !errors.Is(err, errLost) {
			return c.outcomes, err
		}
		s.memory.saw(name, before, c.old...)
		if err = pause.For(ctx, rand.N(wait)); err != nil { //nolint:gosec // jitter needs no secrecy
			return nil, &bucket.UnavailableError{Bucket: name, Applied: bucket.AppliedNo, Err: err}
		}
		wait = min(2*wait, pauseMost)
	}
	err := fmt.Errorf("%w: gave up after %v", bucket.ErrContended, s.patience)
	return nil, &bucket.UnavailableError{Bucket: name, Applied: bucket.AppliedNo, Err: err}
}

// allDry says whether the requests change nothing, so that their process can't lose.
func allDry(requests []bucket.Request) bool {
	return !slices.ContainsFunc(requests, func(r bucket.Request) bool { return !r.Dry })
}

// change is what a swap writes.
type change struct {
	after    bucket.Bucket
	outcomes []bucket.Answer            // of the requests of this process
	answered map[string][]bucket.Answer // of entries, by answerTo
	taken    []int64                    // entries that leave the inbox
	old      []string                   // answers that are forgotten
}

// update is the change for the server.
func (c change) update(written document) bson.D {
	update := bson.D{to("$currentDate", bson.D{to(fieldClock, true)}), to("$set", struct {
		Document document                   `bson:",inline"`
		Answered map[string][]bucket.Answer `bson:",inline"`
	}{written, c.answered})}
	if len(c.taken) > 0 {
		update = append(update, pull(c.taken)...)
	}
	if unset := unsetAnswers(c.old); len(unset) > 0 {
		update = append(update, to("$unset", unset))
	}
	return update
}

// swap writes a change where the document is still as it was before. Otherwise the error matches errLost.
func (s *Store) swap(ctx context.Context, name string, before state, c change) error {
	written := state{document: newDocument(c.after), heard: before.heard}
	var raw bson.Raw
	err := s.send(ctx, name, func(ctx context.Context) (err error) {
		if before.Tag == 0 {
			first := written.document
			first.ID = name
			_, err = s.buckets.InsertOne(ctx, stored.Encode(first))
			return err
		}
		filter, update := bson.D{to("_id", name), to(fieldTag, before.Tag)}, c.update(written.document)
		if before.blind {
			filter = append(filter, to(fieldInbox+".0", bson.D{to("$exists", false)}))
		}
		after := options.FindOneAndUpdate().SetReturnDocument(options.After)
		after.SetProjection(bson.D{to("_id", 0), to(fieldClock, 1)})
		raw, err = s.buckets.FindOneAndUpdate(ctx, filter, stored.Encode(update), after).Raw()
		return err
	})
	written.Clock = before.Clock
	switch {
	case err == nil:
		if ms, ok := raw.Lookup(fieldClock).DateTimeOK(); ok {
			written.Clock, written.heard = time.UnixMilli(ms).UTC(), time.Now()
		}
		s.memory.wrote(name, before, written)
	case !errors.Is(err, errLost):
		s.memory.Delete(name)
	}
	return err
}
