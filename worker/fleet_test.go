package worker_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
)

const fleetRate, fleetCapacity = 100., 5.

// fleetLimit is 100 tokens a second, and a capacity of 5.
func fleetLimit(reserved float64) reservations.Limit {
	return reservations.Limit{Name: "api", Meters: []reservations.Meter{
		{Name: "tokens", Rate: fleetRate, Period: time.Second, Capacity: fleetCapacity, MaxReserved: reserved},
	}}
}

func TestFleetKeepsTheLimit(t *testing.T) {
	t.Parallel()
	for name, reserved := range map[string]float64{"all reserve": 0, "bounded reservations": 50} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const n = 200
				b := setup(t, fleetLimit(reserved))
				b.fleet(n)
				done := map[string]bool{}
				for range n {
					f := receive(t, b.finishes)
					if f.Kind != worker.KindSucceeded || done[f.Task.ID] {
						t.Errorf("finish %+v", f)
					}
					done[f.Task.ID] = true
				}
				starts := b.keepsLimit(n)
				if deliveries := n + len(b.deferrals); deliveries > 2*n+n/20 {
					t.Errorf("%d deliveries of %d tasks", deliveries, n)
				}
				if took := startOf(starts[n-1]).Sub(startOf(starts[0])); took > 2*time.Second {
					t.Errorf("%v from first to last start, the limit allows 1.95 s", took)
				}
				for _, s := range starts {
					if s.Lateness != 0 {
						t.Errorf("%v after its time: %+v", s.Lateness, s)
					}
				}
			})
		})
	}
}

// fleet starts three workers, with n tasks of one token.
func (b *bundle) fleet(n int) {
	b.t.Helper()
	many := make([]tasks.Args, n)
	for i := range many {
		many[i] = call{N: i, Cost: 1}
	}
	if _, err := b.scheduler.EnqueueMany(b.t.Context(), many); err != nil {
		b.t.Fatal(err)
	}
	for range 3 {
		b.run(ok)
	}
}

// startOf is when the buckets let a task start.
func startOf(e worker.Event) time.Time { return e.Outcome.At.Add(e.Outcome.Hold) }

// keepsLimit fails the test if n starts are more than the limit of a fleet allows in any second. It returns the starts
// in order.
func (b *bundle) keepsLimit(n int) []worker.Event {
	b.t.Helper()
	starts := make([]worker.Event, n)
	for i := range starts {
		starts[i] = receive(b.t, b.starts)
	}
	slices.SortFunc(starts, func(x, y worker.Event) int { return startOf(x).Compare(startOf(y)) })
	for i, first := range starts {
		within, end := 0, startOf(first).Add(time.Second)
		for within < n-i && startOf(starts[i+within]).Before(end) {
			within++
		}
		if float64(within) > fleetCapacity+fleetRate+1 { // a window begins with its first start
			b.t.Errorf("%d starts within a second, at most %v are allowed", within, fleetCapacity+fleetRate)
		}
	}
	return starts
}
