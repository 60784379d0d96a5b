package fleets_test

import (
	"testing"
	"time"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
)

// Tasks wait in a queue from which no worker takes. They keep their places, and take nothing of the limit from the
// tasks behind them, which are of another queue. Once a worker takes from the queue, they start.
func TestQueueWithoutAWorker(t *testing.T) {
	in(t, world{limits: []reservations.Limit{requestsOnly}, provider: usual}, func(f *fleet) {
		const unserved, count = 50, 200
		f.start(size)
		f.Run(3 * time.Second)
		f.Backlog(unserved, numbered, tasks.Options{Queue: "other"})
		f.Backlog(count, func(n int) tasks.Args { return call{N: unserved + n} })
		began := time.Now()
		f.await(count)
		if took, least := f.first(count).Sub(began), float64(count-5)/10; took.Seconds() > least+1.5 {
			t.Errorf("%d tasks started within %v, and the limit allows %.1f s", count, took, least)
		}
		if left := f.Report().Left; left != unserved {
			t.Errorf("%d tasks are left, want %d of the other queue", left, unserved)
		}
		f.start(1, worker.Config{Queues: map[string]int{"other": 1}})
		r := f.end(unserved + count)
		if late := f.first(unserved+count).Sub(f.first(count)) - 5*time.Second; late > 4*time.Second {
			t.Errorf("the tasks of the other queue end %v late", late)
		}
		f.wantOnce()
		f.wantDeliveries(r, 1.01)
	})
}
