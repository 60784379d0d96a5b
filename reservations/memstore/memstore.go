// Package memstore keeps buckets in the memory of one process: for tests, for demos, and for fleets of one. Nothing survives
// a restart: buckets are full again, so at most one capacity more than allowed may start around it.
package memstore

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/headway-go/headway/reservations"
)

// sweepEvery is the number of calls after which buckets that are full again are forgotten.
const sweepEvery = 4096

// Store is a reservations.Store in memory. Safe for concurrent use.
type Store struct {
	now func() time.Time

	mu      sync.Mutex // guards what is below
	buckets map[string]entry
	calls   int
}

type entry struct {
	bucket reservations.Bucket
	fullAt time.Time
}

var _ reservations.Store = (*Store)(nil)

// New returns an empty store. Now is its clock; nil means time.Now.
func New(now func() time.Time) *Store {
	if now == nil {
		now = time.Now
	}
	return &Store{now: now, buckets: map[string]entry{}}
}

// Apply implements reservations.Store. It fails only when ctx is already done, and then nothing was applied.
func (s *Store) Apply(ctx context.Context, limit reservations.Limit, key string, requests []reservations.Request) ([]reservations.Outcome, error) {
	name := reservations.BucketName(limit.Name, key)
	if err := ctx.Err(); err != nil {
		return nil, &reservations.UnavailableError{Bucket: name, Applied: reservations.AppliedNo, Err: err}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	s.sweep(now)
	outcomes := make([]reservations.Outcome, len(requests))
	bucket := s.buckets[name].bucket
	for i, r := range requests {
		bucket, outcomes[i] = reservations.Step(bucket, limit, now, r)
	}
	s.buckets[name] = entry{bucket: bucket, fullAt: bucket.FullAt(limit)}
	return outcomes, nil
}

// Reset implements reservations.Store.
func (s *Store) Reset(ctx context.Context, limit reservations.Limit, key string) error {
	name := reservations.BucketName(limit.Name, key)
	if err := ctx.Err(); err != nil {
		return &reservations.UnavailableError{Bucket: name, Applied: reservations.AppliedNo, Err: err}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.buckets, name)
	return nil
}

// Bucket implements reservations.Store. What it returns is a copy. It never fails.
func (s *Store) Bucket(_ context.Context, limit, key string) (reservations.Bucket, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.buckets[reservations.BucketName(limit, key)]
	e.bucket.Meters, e.bucket.Idle, e.bucket.Settled = slices.Clone(e.bucket.Meters), slices.Clone(e.bucket.Idle), slices.Clone(e.bucket.Settled)
	e.bucket.Express, e.bucket.Owed = slices.Clone(e.bucket.Express), slices.Clone(e.bucket.Owed)
	return e.bucket, ok, nil
}

// sweep forgets the buckets that have been full for a minute: a missing bucket is a full one.
func (s *Store) sweep(now time.Time) {
	s.calls++
	if s.calls%sweepEvery != 0 {
		return
	}
	for name, e := range s.buckets {
		if now.After(e.fullAt.Add(time.Minute)) {
			delete(s.buckets, name)
		}
	}
}
