package reservations_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
)

// slowStore is a store whose calls arrive later.
type slowStore struct {
	reservations.Store

	later time.Duration
}

func (s *slowStore) Update(ctx context.Context, limit, key string, change reservations.Change) error {
	<-time.After(s.later)
	return s.Store.Update(ctx, limit, key, change)
}

// A call gives back what it did not use, when its provider's bucket is full. Its only settlement arrives late, when
// another process has emptied the bucket: it brings nothing back that the provider has lost. A settlement that arrives
// in time brings it back.
func TestSettlementThatArrivesLate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name           string
		later, started time.Duration // the other call starts so long after the end of this one
		left           float64
	}{
		{"a slow call of the store", 3 * time.Second, time.Second, 2},
		{"a slow start of the other", 3 * time.Second, 2900 * time.Millisecond, .1},
		{"in time", 0, -time.Second, 10},
		{"nearly in time", 20 * time.Millisecond, 10 * time.Millisecond, 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				limits := []reservations.Limit{{Name: "api", Meters: []reservations.Meter{
					{Name: "tokens", Rate: 1, Period: time.Second, Capacity: 10},
				}}}
				store := memstore.New()
				slow := &slowStore{Store: store}
				one, err := reservations.New(slow, limits, reservations.Config{})
				if err != nil {
					t.Fatal(err)
				}
				other, err := reservations.New(store, limits, reservations.Config{})
				if err != nil {
					t.Fatal(err)
				}
				start := func(l *reservations.Limiter) *reservations.Grant {
					t.Helper()
					g, err := l.Allow(t.Context(), chargeOf("api", 10))
					if err != nil || !g.Started() {
						t.Fatalf("%+v, %v", g, err)
					}
					return g
				}
				g := start(one)
				ends := time.Now().Add(20 * time.Second)
				var all sync.WaitGroup
				all.Go(func() {
					<-time.After(time.Until(ends))
					slow.later = c.later
					if err := g.Settle(t.Context(), reservations.Tokens{"tokens": 0}); err != nil {
						t.Error(err)
					}
				})
				<-time.After(time.Until(ends.Add(c.started)))
				start(other)
				all.Wait()
				if left, _ := level(t, other, "api"); left < c.left-1e-6 || left > c.left+1e-6 {
					t.Errorf("%v are left, want %v", left, c.left)
				}
			})
		})
	}
}
