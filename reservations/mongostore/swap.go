package mongostore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/headway-go/headway/reservations"
)

const (
	// maxAttempts bounds how often a call loses against other writers.
	maxAttempts = 100
	pauseMin    = time.Millisecond
	pauseMax    = 50 * time.Millisecond
)

// errLost is matched when another process wrote between a read and the swap. Nothing was changed then.
var errLost = errors.New("another process was faster")

// Apply implements reservations.Store. It reads the bucket, folds the requests and writes the result where the document is still
// the same: two round trips, and one for a process that wrote last.
func (s *Store) Apply(
	ctx context.Context, limit reservations.Limit, key string, requests []reservations.Request,
) ([]reservations.Outcome, error) {
	name := reservations.BucketName(limit.Name, key)
	if len(requests) == 0 {
		return nil, nil
	}
	if known, now, ok := s.memory.find(name, s.now); ok {
		after, outcomes := reservations.Fold(known.bucket, limit, now, requests)
		if after.Version != known.bucket.Version { // else the answer needs the newest state
			err := s.swap(ctx, name, known, after)
			if !errors.Is(err, errLost) {
				return answer(outcomes, err)
			}
		}
	}
	for pause, n := pauseMin, 1; ; pause, n = min(2*pause, pauseMax), n+1 {
		before, err := s.read(ctx, name)
		if err != nil {
			return nil, err
		}
		after, outcomes := reservations.Fold(before.bucket, limit, before.clock, requests)
		if after.Version == before.bucket.Version {
			return outcomes, nil
		}
		err = s.swap(ctx, name, before, after)
		if !errors.Is(err, errLost) {
			return answer(outcomes, err)
		}
		if n == maxAttempts {
			err = fmt.Errorf("%w: gave up after %d attempts", reservations.ErrContended, n)
			return nil, &reservations.UnavailableError{Bucket: name, Applied: reservations.AppliedNo, Err: err}
		}
		if err = sleep(ctx, rand.N(pause)); err != nil { //nolint:gosec // jitter needs no secrecy
			return nil, &reservations.UnavailableError{Bucket: name, Applied: reservations.AppliedNo, Err: err}
		}
	}
}

func answer(outcomes []reservations.Outcome, err error) ([]reservations.Outcome, error) {
	if err != nil {
		return nil, err
	}
	return outcomes, nil
}

// swap writes the bucket after a change where the document is still as it was before. Otherwise the error matches errLost.
func (s *Store) swap(ctx context.Context, name string, before state, after reservations.Bucket) error {
	written := state{bucket: after, tag: newTag(), clock: before.clock, heard: before.heard}
	stored := encode(after, written.tag)
	var raw bson.Raw
	sent, err := s.send(ctx, name, func(ctx context.Context) (err error) {
		if before.tag == 0 {
			stored.Name = name
			_, err = s.buckets.InsertOne(ctx, stored)
			return err
		}
		update := bson.D{to("$set", stored)}
		if s.now == nil {
			update = append(update, to("$currentDate", bson.D{to(fieldClock, true)}))
		}
		raw, err = s.buckets.FindOneAndUpdate(ctx, bson.D{to("_id", name), to(fieldTag, before.tag)}, update,
			options.FindOneAndUpdate().SetReturnDocument(options.After).SetProjection(bson.D{to("_id", 0), to(fieldClock, 1)})).Raw()
		return err
	})
	switch {
	case err == nil:
		if ms, ok := raw.Lookup(fieldClock).DateTimeOK(); ok {
			written.clock, written.heard = time.UnixMilli(ms).UTC(), time.Now()
		}
		s.memory.wrote(name, before, written)
	case !errors.Is(err, errLost):
		s.memory.forget(name)
	case sent > 1: // the driver repeated the write, and the first one may have been the faster
		s.memory.forget(name)
		return &reservations.UnavailableError{Bucket: name, Applied: reservations.AppliedMaybe, BucketOnly: true, Err: err}
	}
	return err
}

// newTag is never zero.
func newTag() int64 { return rand.Int64() | 1 } //nolint:gosec // tells writes apart, needs no secrecy

// send calls the server and says what is known of a failure. The error matches errLost, or is an UnavailableError. It returns how
// often the driver sent a command.
func (s *Store) send(ctx context.Context, bucket string, call func(context.Context) error) (int32, error) {
	if err := ctx.Err(); err != nil {
		return 0, &reservations.UnavailableError{Bucket: bucket, Applied: reservations.AppliedNo, Err: err}
	}
	watched, counter := withSent(ctx)
	err := call(watched)
	sent := counter.Load()
	if sent > 0 {
		s.monitored.Store(true)
	}
	switch {
	case err == nil:
		return sent, nil
	case errors.Is(err, mongo.ErrNoDocuments) || isConflict(err):
		return sent, fmt.Errorf("%w: %w", errLost, err)
	}
	return sent, &reservations.UnavailableError{
		Bucket: bucket, Applied: s.applied(err, sent), BucketOnly: isOfOneDocument(err), Err: err,
	}
}

// unchanged is the error of a call that only reads.
func unchanged(err error) error {
	if u := (*reservations.UnavailableError)(nil); errors.As(err, &u) {
		u.Applied = reservations.AppliedNo
	}
	return err
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
