package redisstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/bucket"
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
}

var _ reservations.Store = (*Store)(nil)

// Open returns a Store that keeps its buckets in the Redis of client, which asynq may use as well. It asks whether the
// server can keep buckets: the error matches ErrEvicts or reservations.ErrUnavailable. The caller closes the client.
// A call holds a connection of client while it waits for other calls of its bucket. So a bucket should have fewer calls
// at a time than client has connections (PoolSize): a Limiter has one.
func Open(ctx context.Context, client redis.UniversalClient) (*Store, error) {
	s := &Store{client: client, patience: patience}
	s.begin(ctx)
	if err := s.check(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// Apply implements reservations.Store: it loads the bucket, folds the requests and swaps the result, in two round
// trips. A call that loses queues up: the call before it in the queue sends it the bucket, and then no other call
// swaps.
func (s *Store) Apply(
	ctx context.Context, limit bucket.Limit, key string, requests []bucket.Request,
) ([]bucket.Answer, error) {
	if len(requests) == 0 {
		return nil, nil
	}
	name := bucket.Name(limit.Name, key)
	seen, err := s.load(ctx, name)
	if err != nil {
		return nil, err
	}
	call, giveUp := newCall(), time.Now().Add(s.patience)
	for queued := false; ; queued = true {
		after, outcomes := bucket.Fold(seen.bucket, limit, seen.clock, requests)
		if after.Version == seen.bucket.Version {
			if !queued {
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
		if seen, err = s.wait(ctx, name, call, next, place, giveUp); err != nil {
			return nil, err
		}
	}
}

// Reset implements reservations.Store. The bucket is full also where Redis has forgotten buckets a moment ago.
func (s *Store) Reset(ctx context.Context, limit, key string) error {
	name := bucket.Name(limit, key)
	_, _, err := s.write(ctx, writing, name, state{header: anyHeader}, newCall(), keepReset)
	return err
}

// Load implements reservations.Store.
func (s *Store) Load(ctx context.Context, limit, key string) (bucket.Bucket, time.Time, error) {
	seen, err := s.load(ctx, bucket.Name(limit, key))
	return seen.bucket, seen.clock, err
}

// ErrEvicts is matched when the server may evict buckets, now or once it has a maxmemory: a limit would be exceeded by
// as much.
var ErrEvicts = errors.New("redisstore: redis may evict buckets")

// check asks the server whether it can keep buckets.
func (s *Store) check(ctx context.Context) error {
	if _, err := s.load(ctx, ""); err != nil {
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
