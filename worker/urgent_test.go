package worker_test

import (
	"testing"
	"time"

	"github.com/headway-go/headway/internal/waitlist"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/worker"
)

// urgent is an urgent call.
type urgent struct{ call }

func (u urgent) Charges() []reservations.Charge {
	charges := u.call.Charges()
	charges[0].Urgent = true
	return charges
}

// waiting returns how many tasks wait for the limit api.
func (b *bundle) waiting() int {
	b.t.Helper()
	list, err := waitlist.New(b.client).List(b.t.Context(), "api")
	if err != nil {
		b.t.Fatal(err)
	}
	return list.Waiting
}

// An urgent task starts despite a waiting backlog if the bucket has room for it. If not, it waits in the same
// waitlist.
func TestUrgentTaskStartsBesideABacklog(t *testing.T) {
	t.Parallel()
	limit := slow(10)
	limit.Meters[0].Headroom = 4
	b := setup(t, limit)
	b.run(ok)
	b.enqueue(call{Cost: 6})
	receive(t, b.starts)
	receive(t, b.finishes)
	b.enqueue(call{Cost: 1})
	if d := receive(t, b.deferrals); d.Outcome.State != reservations.StateReserved {
		t.Fatalf("deferral %+v", d)
	}
	b.enqueue(urgent{call{Cost: 3}})
	if s := receive(t, b.starts); s.Outcome.Hold != 0 || s.Waited {
		t.Errorf("start %+v", s)
	}
	if f := receive(t, b.finishes); f.Kind != worker.KindSucceeded || !f.Charges[0].Urgent {
		t.Errorf("finish %+v", f)
	}
	b.enqueue(urgent{call{Cost: 3}})
	if d := receive(t, b.deferrals); !d.Charge.Urgent || d.Outcome.Started() {
		t.Errorf("deferral %+v", d)
	}
	if n := b.waiting(); n != 2 {
		t.Errorf("%d tasks wait, want 2", n)
	}
}

// Urgent tasks pass a backlog of ordinary ones, which still gets its share of the limit.
func TestUrgentTasksLeaveOrdinaryOnesTheirShare(t *testing.T) {
	t.Parallel()
	const n, share = 60, 0.25
	b := setup(t, reservations.Limit{Name: "api", OrdinaryShare: share, Meters: []reservations.Meter{{
		Name: "tokens", Rate: 50, Period: time.Second, Capacity: 5, Headroom: 1, MaxReserved: reservations.Unlimited,
	}}})
	w := b.worker(worker.Config{Concurrency: 1})
	worker.Handle(w, ok)
	s, err := scheduler.New(b.client, b.limiter, scheduler.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n { // before the worker starts, so both kinds wait from its first look on
		for _, args := range []call{{N: i, Cost: 1}} {
			if _, err := s.Enqueue(t.Context(), args); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Enqueue(t.Context(), urgent{args}); err != nil {
				t.Fatal(err)
			}
		}
	}
	b.start(w)
	urgents, ordinary := 0, 0
	for urgents < n {
		if receive(t, b.starts).Charges[0].Urgent {
			urgents++
		} else {
			ordinary++
		}
	}
	want := n * share / (1 - share)
	t.Logf("%d ordinary tasks start before the last of %d urgent ones, about %v are due", ordinary, n, want)
	if float64(ordinary) < want/2 || float64(ordinary) > 2*want {
		t.Errorf("%d ordinary tasks start before the last of %d urgent ones, want about %v", ordinary, n, want)
	}
}
