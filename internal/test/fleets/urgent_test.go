package fleets_test

import (
	"context"
	"math"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headway-go/headway/headwaytest"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
)

// person is a call that may be urgent.
type person struct {
	call

	Urgent bool `json:"urgent"`
}

func (p person) Charges() []reservations.Charge {
	charges := p.call.Charges()
	charges[0].Urgent = p.Urgent
	return charges
}

// Urgent tasks pass a backlog, also tasks of it that were promoted and wait for a free slot of a worker.
func TestUrgentTasksPassABacklog(t *testing.T) {
	for _, c := range []struct {
		name  string
		rate  float64
		slots int
		most  time.Duration
	}{{"tokens are scarce", 10, 50, 500 * time.Millisecond}, {"slots are scarce", 100, 5, 1500 * time.Millisecond}} {
		t.Run(c.name, func(t *testing.T) {
			m := perSecond(c.rate, c.rate)
			m.Headroom = c.rate / 4
			in(t, world{limits: []reservations.Limit{limit(m)}, provider: usual}, func(f *fleet) {
				f.Workers(size, func(w *worker.Worker) {
					caller := f.api.Caller()
					worker.Handle(w, func(ctx context.Context, _ *worker.Job[person]) error {
						return caller.Do(ctx, headwaytest.Call{})
					})
				}, worker.Config{Concurrency: c.slots})
				f.Backlog(1000, func(n int) tasks.Args { return person{call: call{N: n, Flow: "backlog"}} })
				f.Run(2 * time.Second)
				var times []time.Duration
				for n := range 20 {
					times = append(times, time.Duration(n)*time.Second)
				}
				f.Replay(times, func(n int) tasks.Args {
					return person{call: call{Series: "p", N: n, Flow: "person"}, Urgent: true}
				})
				f.Run(21 * time.Second)
				if r := f.Report(); r.Left == 0 || r.Flows["person"].Max > c.most {
					t.Errorf("urgent tasks waited: %v; %d tasks are left", r.Flows["person"], r.Left)
				}
			})
		})
	}
}

// Urgent tasks pass a backlog of ordinary ones, which still gets its share of the limit.
func TestUrgentTasksLeaveOrdinaryOnesTheirShare(t *testing.T) {
	const n, share = 60, 0.25
	l := limit(perSecond(10, 5))
	l.Meters[0].Headroom, l.OrdinaryShare = 1, share
	in(t, world{limits: []reservations.Limit{l}, provider: usual}, func(f *fleet) {
		var urgent, ordinary, beside atomic.Int32
		f.Workers(1, func(w *worker.Worker) {
			caller := f.api.Caller()
			worker.Handle(w, func(ctx context.Context, job *worker.Job[person]) error {
				if !job.Args.Urgent {
					ordinary.Add(1)
				} else if urgent.Add(1) == n {
					beside.Store(ordinary.Load())
				}
				return caller.Do(ctx, headwaytest.Call{})
			})
		})
		f.Backlog(2*n, func(i int) tasks.Args {
			return person{call: call{N: i, Flow: strconv.FormatBool(i%2 == 0)}, Urgent: i%2 == 0}
		})
		f.Drain(time.Minute)
		want := n * share / (1 - share)
		if got := float64(beside.Load()); math.Abs(got-want) > want/4 {
			t.Errorf("%v ordinary tasks start before the last of %d urgent ones, want about %v", got, n, want)
		}
	})
}
