package worker_test

import (
	"context"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/testenv"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
)

type numbered struct{ N int }

func (numbered) TaskType() string { return "numbered" }
func (n numbered) Charges() []reservations.Charge {
	limit := "many"
	if n.N%10 == 0 {
		limit = "few"
	}
	return []reservations.Charge{{Limit: limit, Tokens: reservations.Tokens{"tokens": 1}}}
}

// With few handlers, tasks of a limit with room run in the order of their arrival, even while another limit's backlog
// is sorted.
func TestSortKeepsTheOrder(t *testing.T) {
	t.Parallel()
	limit := func(name string, rate, capacity float64) reservations.Limit {
		return reservations.Limit{Name: name, Meters: []reservations.Meter{
			{Name: "tokens", Rate: rate, Period: time.Second, Capacity: capacity, MaxReserved: reservations.Unlimited},
		}}
	}
	b := setupOn(t, testenv.StartRedisServer(t).Addr(), limit("few", 1, 1), limit("many", 500, 20))
	var many []tasks.Args
	const n = 600
	for i := range n {
		many = append(many, numbered{i})
	}
	if _, err := b.scheduler.EnqueueMany(t.Context(), many); err != nil {
		t.Fatal(err)
	}
	ran := make(chan int, n)
	w := b.worker(worker.Config{Concurrency: 2})
	worker.Handle(w, func(_ context.Context, j *worker.Job[numbered]) error {
		if j.Args.N%10 != 0 {
			ran <- j.Args.N
		}
		<-time.After(10 * time.Millisecond)
		return nil
	})
	b.start(w)
	var order []int
	for range n / 10 * 9 {
		order = append(order, receive(t, ran))
	}
	most, far := 0, 0
	for i := range order {
		behind := 0
		for _, later := range order[i:] {
			if later < order[i] {
				behind++
			}
		}
		if most = max(most, behind); behind > 40 {
			far++
		}
	}
	if far > 20 { // tasks that a worker takes while the first ones are sorted
		t.Errorf("%d of %d tasks overtook more than 40 others, one of them %d", far, len(order), most)
	}
}
