package worker_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/headway-go/headway/internal/test/testenv"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
)

func TestFleetKeepsTheLimit(t *testing.T) {
	t.Parallel()
	t.Run("miniredis", func(t *testing.T) {
		t.Parallel()
		fleet(t, miniredis.RunT(t).Addr(), 0)
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		fleet(t, testenv.StartRedisServer(t).Addr(), 0)
	})
	t.Run("bounded reservations", func(t *testing.T) {
		t.Parallel()
		fleet(t, miniredis.RunT(t).Addr(), 50)
	})
}

// fleet runs 200 tasks at 100 a second with a capacity of 5, on three workers.
func fleet(t *testing.T, addr string, reserved float64) {
	t.Helper()
	const (
		n, workers     = 200, 3
		rate, capacity = 100., 5.
	)
	b := setupOn(t, addr, reservations.Limit{Name: "api", Meters: []reservations.Meter{
		{Name: "tokens", Rate: rate, Period: time.Second, Capacity: capacity, MaxReserved: reserved},
	}})
	many := make([]tasks.Args, n)
	for i := range many {
		many[i] = call{N: i, Cost: 1}
	}
	if _, err := b.scheduler.EnqueueMany(t.Context(), many); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for range workers {
		w := b.worker(worker.Config{})
		worker.Handle(w, func(context.Context, *worker.Job[call]) error { return nil })
		b.start(w)
	}
	done := map[string]bool{}
	for range n {
		f := receive(t, b.finishes)
		if f.Kind != worker.KindSucceeded || done[f.Task.ID] {
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
	for i := range at {
		within, _ := slices.BinarySearchFunc(at[i:], at[i].Add(time.Second), time.Time.Compare)
		if float64(within) > capacity+rate+1 { // a window begins with its first start
			t.Errorf("%d starts within a second, at most %v are allowed", within, capacity+rate)
		}
	}
	deliveries := float64(n+len(b.deferrals)) / n
	if len(b.deferrals) > n+n/20+returns(n, began) {
		t.Errorf("%.2f deliveries a task", deliveries)
	}
	if len(late) == 0 { // on a slow machine each task may find room
		late = []time.Duration{0}
	}
	t.Logf("%.2f deliveries a task, %v from first to last start, lateness p50 %v p99 %v of %d",
		deliveries, at[n-1].Sub(at[0]), late[len(late)/2], late[len(late)*99/100], len(late))
}
