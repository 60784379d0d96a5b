// Package memstore keeps buckets in the memory of one process: for tests, for demos, and for fleets of one. Nothing
// survives a restart: buckets are full again, so at most one capacity more than allowed may start around it.
package memstore

import (
	"context"
	"sync"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/reservations"
)

// sweepEvery is the number of calls after which buckets that are full again are forgotten.
const sweepEvery = 4096

// Store is a reservations.Store in memory. Safe for concurrent use.
type Store struct {
	now func() time.Time

	mu      sync.Mutex // guards what is below
	buckets map[string]bucket.Bucket
	calls   int
}

var _ reservations.Store = (*Store)(nil)

// New returns an empty store.
func New() *Store { return NewAt(time.Now) }

// NewAt returns an empty store with a clock of its own.
func NewAt(now func() time.Time) *Store {
	return &Store{now: now, buckets: map[string]bucket.Bucket{}}
}

// Update implements reservations.Store.
func (s *Store) Update(ctx context.Context, _, _ string, change reservations.Change) error {
	return bucket.Serve(ctx, change, s.apply, s.load)
}

// apply fails only when ctx is already done, and then nothing was applied.
func (s *Store) apply(
	ctx context.Context, limit bucket.Limit, key string, requests []bucket.Request,
) ([]bucket.Answer, error) {
	name := bucket.Name(limit.Name, key)
	if err := ctx.Err(); err != nil {
		return nil, &bucket.UnavailableError{Bucket: name, Applied: bucket.AppliedNo, Err: err}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	s.sweep(now)
	before := s.buckets[name]
	after, outcomes := bucket.Fold(before, limit, now, requests)
	if after.Version != before.Version {
		s.buckets[name] = after
	}
	return outcomes, nil
}

// Reset implements reservations.Store.
func (s *Store) Reset(ctx context.Context, limit, key string) error {
	name := bucket.Name(limit, key)
	if err := ctx.Err(); err != nil {
		return &bucket.UnavailableError{Bucket: name, Applied: bucket.AppliedNo, Err: err}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.buckets, name)
	return nil
}

// load never fails.
func (s *Store) load(_ context.Context, limit, key string) (bucket.Bucket, time.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buckets[bucket.Name(limit, key)], s.now(), nil
}

// sweep forgets the buckets that have been full for a minute: a missing bucket is a full one.
func (s *Store) sweep(now time.Time) {
	s.calls++
	if s.calls%sweepEvery != 0 {
		return
	}
	for name, b := range s.buckets {
		if now.After(b.KeepUntil().Add(time.Minute)) {
			delete(s.buckets, name)
		}
	}
}
