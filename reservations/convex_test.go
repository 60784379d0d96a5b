package reservations_test

import (
	"context"
	"testing"
	"time"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/storetest"
)

// folding is a store that is no more than Fold: it keeps every bucket as Fold returns it.
type folding struct {
	clock   *storetest.Clock
	buckets map[string]reservations.Bucket
}

func (f folding) Apply(
	_ context.Context, limit reservations.Limit, key string, requests []reservations.Request,
) (outcomes []reservations.Outcome, err error) {
	name := reservations.BucketName(limit.Name, key)
	b, outcomes := reservations.Fold(f.buckets[name], limit, f.clock.Now(), requests)
	if !requests[0].Dry {
		f.buckets[name] = b
	}
	return outcomes, nil
}

func (f folding) Reset(_ context.Context, limit, key string) error {
	delete(f.buckets, reservations.BucketName(limit, key))
	return nil
}

func (f folding) Load(_ context.Context, limit, key string) (reservations.Bucket, time.Time, error) {
	return f.buckets[reservations.BucketName(limit, key)], f.clock.Now(), nil
}

// The recordings of Convex's rate limiter, replayed on the arithmetic alone.
func TestConvexRecordings(t *testing.T) {
	t.Parallel()
	storetest.Replay(t, "testdata/convex_hand.jsonl", 516, func(*testing.T) storetest.Instance {
		clock := storetest.NewClock()
		store := folding{clock: clock, buckets: map[string]reservations.Bucket{}}
		return storetest.Instance{Store: store, Advance: clock.Advance}
	})
}
