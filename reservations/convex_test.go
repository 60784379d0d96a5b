package reservations_test

import (
	"context"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/storetest"
)

// folding is a store that is no more than Fold: it keeps every bucket as Fold returns it.
type folding struct {
	clock   *storetest.Clock
	buckets map[string]bucket.Bucket
}

func (f folding) Update(ctx context.Context, _, _ string, change reservations.Change) error {
	return bucket.Serve(ctx, change, f.Apply, f.Load)
}

func (f folding) Apply(
	_ context.Context, limit bucket.Limit, key string, requests []bucket.Request,
) (outcomes []bucket.Answer, err error) {
	name := bucket.Name(limit.Name, key)
	b, outcomes := bucket.Fold(f.buckets[name], limit, f.clock.Now(), requests)
	if !requests[0].Dry {
		f.buckets[name] = b
	}
	return outcomes, nil
}

func (f folding) Reset(_ context.Context, limit, key string) error {
	delete(f.buckets, bucket.Name(limit, key))
	return nil
}

func (f folding) Load(_ context.Context, limit, key string) (bucket.Bucket, time.Time, error) {
	return f.buckets[bucket.Name(limit, key)], f.clock.Now(), nil
}

// The recordings of Convex's rate limiter, replayed on the arithmetic alone.
func TestConvexRecordings(t *testing.T) {
	t.Parallel()
	storetest.Replay(t, "testdata/convex_hand.jsonl", 516, func(*testing.T) storetest.Instance {
		clock := storetest.NewClock()
		store := folding{clock: clock, buckets: map[string]bucket.Bucket{}}
		return storetest.Instance{Store: store, Advance: clock.Advance}
	})
}
