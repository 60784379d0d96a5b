package worker_test

import (
	"context"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
	"github.com/headway-go/headway/worker"
)

// farStore is a store with slow answers. A task that takes two tokens must hold for longer than an answer takes.
type farStore struct {
	*memstore.Store

	begun atomic.Int64
}

const farAway = 150 * time.Millisecond

func (s *farStore) Update(ctx context.Context, _, _ string, change reservations.Change) error {
	return bucket.Serve(ctx, change, s.Apply, bucket.Loader(s.Store))
}

func (s *farStore) Apply(
	ctx context.Context, limit bucket.Limit, key string, requests []bucket.Request,
) ([]bucket.Answer, error) {
	outcomes, err := bucket.Apply(ctx, s.Store, limit, key, requests)
	for i := range outcomes {
		if requests[i].Op == bucket.OpStart {
			s.begun.Add(1)
			if outcomes[i].Started() && requests[i].Tokens[0] == 2 {
				outcomes[i].Hold = bucket.Hold
			}
		}
	}
	<-time.After(farAway)
	return outcomes, err
}

// With a slow store, a start without a hold is late by the time of the answer, and a start with a hold is not. No
// start asks again for that.
func TestFarStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const each, apart = 25, 100 * time.Millisecond
		b := setup(t)
		far := &farStore{Store: memstore.New()}
		var err error
		limits := []reservations.Limit{slow(10000)}
		if b.limiter, err = reservations.New(far, limits, reservations.Config{CallTimeout: time.Minute}); err != nil {
			t.Fatal(err)
		}
		w := b.worker(worker.Config{})
		worker.Handle(w, ok)
		b.start(w)
		tick := time.NewTicker(apart)
		defer tick.Stop()
		for range each {
			b.enqueue(call{Cost: 1})
			b.enqueue(call{Cost: 2})
			<-tick.C
		}
		for range 2 * each {
			receive(t, b.starts)
		}
		if n := far.begun.Load(); n != 2*each {
			t.Errorf("%d tasks asked %d times", 2*each, n)
		}
	})
}

// A task whose start is too late asks again. It is not charged twice, and does not wait for the next day.
func TestTooLateInADaysWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const day = 24 * time.Hour
		noon := time.Duration(time.Now().Add(-day/2).UnixMilli()) * time.Millisecond % day // no window ends now
		b := setup(t, reservations.Limit{Name: "api", Meters: []reservations.Meter{{
			Name: "tokens", Kind: reservations.KindWindow, Rate: 11, Period: day, Capacity: 11, Start: noon,
			MaxReserved: 0,
		}}})
		b.late()
		b.enqueue(call{Cost: 6})
		s := receive(t, b.starts)
		if n, left := b.store.begins(), b.balance(); s.Waited || n < 3 || math.Abs(left-4) > 1e-9 {
			t.Errorf("start %+v after %d requests, %v left", s, n, left)
		}
	})
}
