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

func TestFleetKeepsTheLimit(t *testing.T) {
	t.Parallel()
	for name, reserved := range map[string]float64{"all reserve": 0, "bounded reservations": 50} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const n, rate, capacity = 200, 100., 5.
				b := setup(t, reservations.Limit{Name: "api", Meters: []reservations.Meter{
					{Name: "tokens", Rate: rate, Period: time.Second, Capacity: capacity, MaxReserved: reserved},
				}})
				starts := b.fleet(n, capacity+rate)
				deliveries := float64(n+len(b.deferrals)) / n
				if len(b.deferrals) > n+n/20 {
					t.Errorf("%.2f deliveries a task", deliveries)
				}
				took := starts[n-1].Outcome.At.Sub(starts[0].Outcome.At)
				late := make([]time.Duration, n)
				for i, s := range starts {
					late[i] = s.Lateness
				}
				slices.Sort(late)
				t.Logf("%.2f deliveries a task, %v from first to last start, lateness p50 %v p99 %v", deliveries, took, late[n/2],
					late[n*99/100])
			})
		})
	}
}

// fleet runs n tasks of one token on three workers, and returns their starts in order. At most this many may start in
// a second.
func (b *bundle) fleet(n int, most float64) []worker.Event {
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
	done := map[string]bool{}
	for range n {
		f := receive(b.t, b.finishes)
		if f.Kind != worker.KindSucceeded || done[f.Task.ID] {
			b.t.Errorf("finish %+v", f)
		}
		done[f.Task.ID] = true
	}
	starts := make([]worker.Event, n)
	for i := range starts {
		starts[i] = receive(b.t, b.starts)
	}
	at := func(e worker.Event) time.Time { return e.Outcome.At.Add(e.Outcome.Hold) }
	slices.SortFunc(starts, func(x, y worker.Event) int { return at(x).Compare(at(y)) })
	for i := range starts {
		within := 0
		for _, s := range starts[i:] {
			if at(s).Before(at(starts[i]).Add(time.Second)) {
				within++
			}
		}
		if float64(within) > most+1 { // a window begins with its first start
			b.t.Errorf("%d starts within a second, at most %v are allowed", within, most)
		}
	}
	return starts
}
