package worker_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
	"github.com/headway-go/headway/worker"
)

// farStore is a store whose answers are long on their way. Those who take two tokens have to hold for longer than that.
type farStore struct {
	*memstore.Store

	begun atomic.Int64
}

const farAway = 150 * time.Millisecond

func (s *farStore) Apply(ctx context.Context, limit reservations.Limit, key string, requests []reservations.Request) ([]reservations.Outcome, error) {
	outcomes, err := s.Store.Apply(ctx, limit, key, requests)
	for i := range outcomes {
		if requests[i].Op == reservations.OpBegin {
			s.begun.Add(1)
			if outcomes[i].Started() && requests[i].Tokens[0] == 2 {
				outcomes[i].Hold = reservations.Hold
			}
		}
	}
	<-time.After(farAway)
	return outcomes, err
}

// Where a store is far away, those who need not hold are late by the way of the answer, and those who hold are not. Nobody asks anew again and again for that: what
// a start takes that asks anew is lost.
func TestFarStore(t *testing.T) {
	t.Parallel()
	const each, apart = 25, 100 * time.Millisecond
	b := setup(t)
	far := &farStore{Store: memstore.New(nil)}
	var err error
	if b.limiter, err = reservations.New(far, []reservations.Limit{slow(10000)}, reservations.Config{CallTimeout: 10 * time.Second}); err != nil {
		t.Fatal(err)
	}
	b.run(func(context.Context, *worker.Job[call]) error { return nil })
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
	if n := far.begun.Load(); n > 4*each {
		t.Errorf("%d tasks asked %d times", 2*each, n)
	}
}

// A task that asked anew because its start came too late never waited in a line, and no event says so.
func TestStartThatAskedAnewNeverWaited(t *testing.T) {
	t.Parallel()
	b := setup(t, slow(100))
	b.run(ok)
	b.enqueue(call{Cost: 1})
	receive(t, b.starts) // now it is known how fast the store is
	b.store.set(func(s *faultStore) { s.stall = 300 * time.Millisecond })
	b.enqueue(call{Cost: 10})
	if s := receive(t, b.starts); s.Place.State != "" || s.Waited || b.store.begins() != 3 {
		t.Errorf("start %+v after %d requests", s, b.store.begins())
	}
}

// A start that came too late still is in its window: it is not charged twice, and does not wait for the next day.
func TestTooLateInADaysWindow(t *testing.T) {
	t.Parallel()
	day := reservations.Limit{Name: "api", Meters: []reservations.Meter{{
		Name: "tokens", Kind: reservations.KindWindow, Rate: 11, Period: 24 * time.Hour, Capacity: 11, MaxReserved: reservations.Unlimited,
		Start: time.Duration(time.Now().Add(-12*time.Hour).UnixMilli()) * time.Millisecond % (24 * time.Hour), // no window ends now
	}}}
	b := setup(t, day)
	b.run(ok)
	b.enqueue(call{Cost: 1})
	receive(t, b.starts)
	b.store.set(func(s *faultStore) { s.stall = 300 * time.Millisecond })
	b.enqueue(call{Cost: 6})
	if s := receive(t, b.starts); s.Place.State != "" || b.store.begins() != 2 || b.balance() != 4 {
		t.Errorf("start %+v after %d requests, %v left", s, b.store.begins(), b.balance())
	}
}
