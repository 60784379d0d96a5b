package mongostore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/headway-go/headway/reservations"
)

// DefaultCollection is where buckets are kept.
const DefaultCollection = "headway_buckets"

const (
	// maxAttempts bounds how often a call is sent while its bucket is contended. Only first writers of a bucket collide, so two nearly always do.
	maxAttempts = 10
	pauseMin    = 2 * time.Millisecond
	pauseMax    = 200 * time.Millisecond
)

// Options of a Store. The zero value is right for production.
type Options struct {
	// Collection holds the buckets. Defaults to DefaultCollection. All users of a limit must name the same.
	Collection string
	// Now replaces the server's clock, cut to milliseconds. It is for tests only: fleets need the one clock of the server. Nil means the server's.
	Now func() time.Time

	swapping swapping
}

// Store is a reservations.Store in MongoDB. Safe for concurrent use, by any number of processes.
type Store struct {
	buckets   *mongo.Collection
	programs  programs
	now       func() any
	local     func() time.Time // Options.Now
	swapping  swapping
	memory    *memory
	monitored atomic.Bool // a call was seen by the monitor of ClientOptions
}

var _ reservations.Store = (*Store)(nil)

// New returns a Store that keeps its buckets in db. It sends nothing; see Ping and EnsureIndexes. The client of db stays the caller's to disconnect.
func New(db *mongo.Database, o Options) *Store {
	if o.Collection == "" {
		o.Collection = DefaultCollection
	}
	now := func() any { return "$$NOW" }
	if o.Now != nil {
		now = func() any { return bson.NewDateTimeFromTime(o.Now()) }
	}
	settings := options.Collection().SetWriteConcern(writeconcern.Majority()).SetReadPreference(readpref.Primary())
	return &Store{buckets: db.Collection(o.Collection, settings), now: now, local: o.Now, swapping: o.swapping, memory: newMemory()}
}

// Apply implements reservations.Store: one round trip, whatever the number of requests; where another process has just written, two or three, and some more only
// where it does so again between them.
func (s *Store) Apply(ctx context.Context, limit reservations.Limit, key string, requests []reservations.Request) ([]reservations.Outcome, error) {
	name := reservations.BucketName(limit.Name, key)
	if len(requests) == 0 {
		return nil, nil
	}
	before, now, ok := s.memory.find(name, s.swapping, s.local)
	if !now.IsZero() {
		outcomes, after, err := s.swap(ctx, name, before, now, limit, requests)
		if err != nil {
			s.memory.forget(name)
			return nil, err
		}
		if outcomes != nil {
			s.memory.swapped(name, after)
			return outcomes, nil
		}
		s.memory.missed(name)
	}
	if ok && s.looks(requests) {
		outcomes, err := s.look(ctx, name, before, limit, requests)
		if err != nil {
			s.memory.forget(name)
			return nil, err
		}
		if outcomes != nil {
			return outcomes, nil
		}
	}
	outcomes, after, err := s.fold(ctx, name, limit, requests)
	if err != nil {
		s.memory.forget(name)
		return nil, err
	}
	if b, err := decodeBucket(after); err == nil {
		s.memory.folded(name, before.then(ok, b, after.Lookup(fieldLed), len(requests)))
	}
	return outcomes, nil
}

// fold sends the pipeline. It returns the bucket after it as well.
func (s *Store) fold(ctx context.Context, name string, limit reservations.Limit, requests []reservations.Request) ([]reservations.Outcome, bson.Raw, error) {
	var raw bson.Raw
	err := s.attempt(ctx, name, func(ctx context.Context) error {
		var err error
		raw, err = s.update(ctx, name, limit, requests)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	outcomes, err := decodeOutcomes(raw, len(requests))
	if err != nil {
		return nil, nil, &reservations.UnavailableError{Bucket: name, Applied: reservations.AppliedMaybe, Err: err}
	}
	return outcomes, raw, nil
}

// update sends the pipeline for a bucket of the limit's shape, and where that is not the bucket's, which inserting then collides with, the one
// that changes it: two round trips, once after each change.
func (s *Store) update(ctx context.Context, name string, limit reservations.Limit, requests []reservations.Request) (bson.Raw, error) {
	after := options.FindOneAndUpdate().SetUpsert(true).SetReturnDocument(options.After)
	v := variantOf(limit, requests)
	raw, err := s.buckets.FindOneAndUpdate(ctx, bson.D{to("_id", name), to(fieldShape, shapeOf(limit))},
		pipeline(s.programs.of(v), limit, requests, s.now()), after).Raw()
	if err == nil || !isConflict(err) {
		return raw, err
	}
	v.changed = true
	return s.buckets.FindOneAndUpdate(ctx, bson.D{to("_id", name)}, pipeline(s.programs.of(v), limit, requests, s.now()), after).Raw()
}

// Reset implements reservations.Store: it deletes the document.
func (s *Store) Reset(ctx context.Context, limit reservations.Limit, key string) error {
	name := reservations.BucketName(limit.Name, key)
	defer s.memory.forget(name)
	return s.attempt(ctx, name, func(ctx context.Context) error {
		_, err := s.buckets.DeleteOne(ctx, bson.D{to("_id", name)})
		return err
	})
}

// Bucket implements reservations.Store: it reads the document.
func (s *Store) Bucket(ctx context.Context, limit, key string) (reservations.Bucket, bool, error) {
	name := reservations.BucketName(limit, key)
	var raw bson.Raw
	err := s.attempt(ctx, name, func(ctx context.Context) error {
		var err error
		raw, err = s.buckets.FindOne(ctx, bson.D{to("_id", name)}).Raw()
		if errors.Is(err, mongo.ErrNoDocuments) {
			return nil
		}
		return err
	})
	if err != nil || raw == nil {
		return reservations.Bucket{}, false, err
	}
	b, err := decodeBucket(raw)
	if err != nil {
		return reservations.Bucket{}, false, &reservations.UnavailableError{Bucket: name, Applied: reservations.AppliedNo, Err: err}
	}
	return b, true, nil
}

// Ping asks the server whether it can be written to. The error matches reservations.ErrUnavailable.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.buckets.Database().Client().Ping(ctx, readpref.Primary()); err != nil {
		return fmt.Errorf("%w: ping MongoDB: %w", reservations.ErrUnavailable, err)
	}
	return nil
}

// attempt calls send, again after conflicts that changed nothing, and says what is known of a failure.
func (s *Store) attempt(ctx context.Context, bucket string, send func(context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return &reservations.UnavailableError{Bucket: bucket, Applied: reservations.AppliedNo, Err: err}
	}
	pause := pauseMin
	for n := 1; ; n++ {
		watched, sent := withSent(ctx)
		err := send(watched)
		if sent.Load() > 0 {
			s.monitored.Store(true)
		}
		if err == nil {
			return nil
		}
		if !isConflict(err) {
			return &reservations.UnavailableError{Bucket: bucket, Applied: s.applied(err, sent.Load()), Err: err}
		}
		if n == maxAttempts {
			err = fmt.Errorf("%w: gave up after %d attempts: %w", reservations.ErrContended, n, err)
			return &reservations.UnavailableError{Bucket: bucket, Applied: reservations.AppliedNo, Err: err}
		}
		if err := sleep(ctx, pause/2+rand.N(pause)); err != nil { //nolint:gosec // jitter needs no secrecy
			return &reservations.UnavailableError{Bucket: bucket, Applied: reservations.AppliedNo, Err: err}
		}
		pause = min(2*pause, pauseMax)
	}
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
