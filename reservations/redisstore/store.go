package redisstore

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/calls/bounded"
	"github.com/headway-go/headway/reservations"
)

const (
	// keepFull is how long a full bucket is kept.
	keepFull = time.Minute
	// keepReset is how long a reset is remembered where the bucket is not used: a window may be as long as a month.
	keepReset = 32 * 24 * time.Hour
	// patience is how long a call competes before it gives up.
	patience = 3 * time.Second
	// queueKept is how long the first call of a queue may take. A call that ended with its process is in the way for as
	// long.
	queueKept = 200 * time.Millisecond
)

// Store is a reservations.Store in Redis, which stores overrides as well: the rates that were set while the fleet runs.
// A Redis that loses its data loses them too; then the configured rates count. Safe for concurrent use, by any number
// of processes.
type Store struct {
	client   redis.UniversalClient
	now      func() time.Time // replaces Redis's clock in tests
	patience time.Duration
	opened   atomic.Bool // the server was asked whether it can keep buckets
	memory   bounded.Map[string, remembered]
}

var _ reservations.Store = (*Store)(nil)

// New returns a Store that keeps its buckets in the Redis of client, which asynq may use as well. It sends nothing: its
// first call asks whether the server can keep buckets, and nothing starts while it can't. The caller closes the client.
// A call holds a connection of client while it waits for other calls of its bucket. So a bucket should have fewer calls
// at a time than client has connections (PoolSize): a Limiter has one.
func New(client redis.UniversalClient) *Store {
	s := &Store{client: client, patience: patience}
	s.memory.Most = memoryMost
	return s
}

// Open is New, and asks the server at once: the error matches ErrEvicts or reservations.ErrUnavailable.
func Open(ctx context.Context, client redis.UniversalClient) (*Store, error) {
	s := New(client)
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// open asks the server once. Callers that come at the same time may ask it more than once, which does no harm.
func (s *Store) open(ctx context.Context) error {
	if s.opened.Load() {
		return nil
	}
	s.begin(ctx)
	if err := s.check(ctx); err != nil {
		return err
	}
	s.opened.Store(true)
	return nil
}

// ask is open before a call to a bucket.
func (s *Store) ask(ctx context.Context, bucketName string) error {
	if err := s.open(ctx); err != nil {
		return &bucket.UnavailableError{Bucket: bucketName, Applied: bucket.AppliedNo, Err: err}
	}
	return nil
}

// Update implements reservations.Store.
func (s *Store) Update(ctx context.Context, _, _ string, change reservations.Change) error {
	return bucket.Serve(ctx, change, s.apply, s.load)
}

// apply loads the bucket, folds the requests and swaps the result, in two round trips. A process that wrote last swaps
// what it wrote, in one. A call that loses queues up: the call before it in the queue sends it the bucket, and then no
// other call swaps.
func (s *Store) apply(
	ctx context.Context, limit bucket.Limit, key string, requests []bucket.Request,
) ([]bucket.Answer, error) {
	if len(requests) == 0 {
		return nil, nil
	}
	name := bucket.Name(limit.Name, key)
	if err := s.ask(ctx, name); err != nil {
		return nil, err
	}
	seen, known := s.recall(name)
	call, giveUp := newCall(), time.Now().Add(s.patience)
	for queued := false; ; {
		if !known {
			var err error
			if seen, err = s.see(ctx, name); err != nil {
				return nil, err
			}
		}
		after, outcomes := bucket.Fold(seen.bucket, limit, seen.Clock, requests)
		if after.Version == seen.bucket.Version {
			switch {
			case seen.blind: // the answer needs the newest state
				known, seen.blind = false, false
				continue
			case !queued:
				return outcomes, nil
			}
			after.Version++ // a swap lets the next call of the queue go on
		}
		next, place, err := s.swap(ctx, name, call, seen, limit, after)
		if err != nil {
			return nil, err
		}
		if place == written {
			return outcomes, nil
		}
		known = true
		if seen.blind {
			seen = next
			continue
		}
		queued = true
		if seen, err = s.wait(ctx, name, call, next, place, giveUp); err != nil {
			return nil, err
		}
	}
}

// Reset implements reservations.Store. The bucket is full also where Redis has forgotten buckets a moment ago.
func (s *Store) Reset(ctx context.Context, limit, key string) error {
	name := bucket.Name(limit, key)
	if err := s.ask(ctx, name); err != nil {
		return err
	}
	_, _, err := s.write(ctx, writing, name, state{header: anyHeader}, newCall(), keepReset)
	return err
}

func (s *Store) load(ctx context.Context, limit, key string) (bucket.Bucket, time.Time, error) {
	name := bucket.Name(limit, key)
	if err := s.ask(ctx, name); err != nil {
		return bucket.Bucket{}, time.Time{}, err
	}
	seen, err := s.see(ctx, name)
	return seen.bucket, seen.Clock, err
}

// ErrEvicts is matched when the server may evict buckets, now or once it has a maxmemory: a limit would be exceeded by
// as much.
var ErrEvicts = errors.New("redisstore: redis may evict buckets")

// check asks the server whether it can keep buckets.
func (s *Store) check(ctx context.Context) error {
	if _, err := s.see(ctx, ""); err != nil {
		return fmt.Errorf("ask redis whether it can keep buckets "+
			"(it needs EVAL, EVALSHA, GET, SET, TIME and INFO on %s*): %w", root, err)
	}
	const memory = `return redis.call("INFO", "memory")`
	info, err := s.client.Eval(ctx, memory, []string{keyEpoch}).Text() // a key, so that a cluster asks the node
	if err != nil {
		return fmt.Errorf("%w: ask redis for its memory: %w", reservations.ErrUnavailable, err)
	}
	fields := fieldsOf(info)
	policy := fields["maxmemory_policy"]
	if policy == "" || policy == "noeviction" {
		return nil
	}
	return fmt.Errorf("%w: maxmemory is %s and maxmemory-policy %s; it must be noeviction, which asynq needs as well",
		ErrEvicts, fields["maxmemory"], policy)
}
