package reservations_test

import (
	"context"
	"testing"
	"time"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/storetest"
)

// stepStore is Step and nothing else. It is for one caller.
type stepStore struct {
	now     func() time.Time
	buckets map[string]reservations.Bucket
}

func (s stepStore) Apply(_ context.Context, l reservations.Limit, key string, requests []reservations.Request) ([]reservations.Outcome, error) {
	name := reservations.BucketName(l.Name, key)
	outcomes := make([]reservations.Outcome, len(requests))
	for i, r := range requests {
		s.buckets[name], outcomes[i] = reservations.Step(s.buckets[name], l, s.now(), r)
	}
	return outcomes, nil
}

func (s stepStore) Reset(_ context.Context, l reservations.Limit, key string) error {
	delete(s.buckets, reservations.BucketName(l.Name, key))
	return nil
}

func (s stepStore) Bucket(_ context.Context, limit, key string) (reservations.Bucket, bool, error) {
	b, ok := s.buckets[reservations.BucketName(limit, key)]
	return b, ok, nil
}

// What Convex's rate limiter did, Step does.
func TestConvexRecordings(t *testing.T) {
	t.Parallel()
	storetest.Replay(t, "testdata/convex_hand.jsonl", 516, func(*testing.T) storetest.Instance {
		clock := storetest.NewClock()
		store := stepStore{clock.Now, map[string]reservations.Bucket{}}
		return storetest.Instance{Store: store, Advance: clock.Advance}
	})
}
