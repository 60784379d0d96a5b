package worker_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/headway-go/headway/internal/testenv"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
)

func TestFleetKeepsTheLimit(t *testing.T) {
	t.Parallel()
	t.Run("miniredis", func(t *testing.T) {
		t.Parallel()
		fleet(t, miniredis.RunT(t).Addr())
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		fleet(t, testenv.StartRedisServer(t).Addr())
	})
}

// fleet lets three workers run 200 tasks at 100 a second with a capacity of 5.
func fleet(t *testing.T, addr string) {
	t.Helper()
	const (
		n, workers     = 200, 3
		rate, capacity = 100., 5.
	)
	b := setupOn(t, addr, reservations.Limit{Name: "api", Meters: []reservations.Meter{
		{Name: "tokens", Rate: rate, Period: time.Second, Capacity: capacity, MaxReserved: reservations.Unlimited},
	}})
	many := make([]tasks.Args, n)
	for i := range many {
		many[i] = call{N: i, Cost: 1}
	}
	if _, err := b.scheduler.EnqueueMany(t.Context(), many); err != nil {
		t.Fatal(err)
	}
	for range workers {
		w := b.worker(worker.Config{})
		worker.Handle(w, func(context.Context, *worker.Job[call]) error { return nil })
		b.start(w)
	}
	done := map[string]bool{}
	for range n {
		f := receive(t, b.finishes)
		if f.Result != worker.ResultSucceeded || done[f.Task.ID] {
			t.Errorf("finish %+v", f)
		}
		done[f.Task.ID] = true
	}
	var at []time.Time
	var late []time.Duration
	for range n {
		s := <-b.starts
		at = append(at, s.Outcome.At.Add(s.Outcome.Hold))
		if s.Waited {
			late = append(late, s.Lateness)
		}
	}
	slices.SortFunc(at, time.Time.Compare)
	slices.Sort(late)
	bound := capacity + rate*reservations.Hold.Seconds() + rate
	for i := range at {
		inWindow := 0
		for _, other := range at[i:] {
			if other.Sub(at[i]) < time.Second {
				inWindow++
			}
		}
		if float64(inWindow) > bound {
			t.Errorf("%d starts within a second, at most %v are allowed", inWindow, bound)
		}
	}
	deliveries := float64(n+len(b.deferrals)) / n
	if deliveries > 3 {
		t.Errorf("%.2f deliveries a task", deliveries)
	}
	given := map[string]int{}
	for range len(b.deferrals) {
		d := <-b.deferrals
		given[d.Task.ID]++
	}
	for id, times := range given {
		if times > 1 {
			t.Errorf("task %s was sent back %d times", id, times)
		}
	}
	if len(late) == 0 { // on a machine so slow that each found room
		late = []time.Duration{0}
	}
	t.Logf("%.2f deliveries a task, %v from first to last start, lateness p50 %v p99 %v of %d",
		deliveries, at[n-1].Sub(at[0]), late[len(late)/2], late[len(late)*99/100], len(late))
}
