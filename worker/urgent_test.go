package worker_test

import (
	"testing"
	"testing/synctest"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/line/waitlist"
	"github.com/headway-go/headway/reservations"
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
	synctest.Test(t, func(t *testing.T) {
		limit := slow(10)
		limit.Meters[0].Headroom = 4
		b := setup(t, limit)
		b.run(ok)
		b.enqueue(call{Cost: 6})
		receive(t, b.starts)
		receive(t, b.finishes)
		b.enqueue(call{Cost: 1})
		if d := receive(t, b.deferrals); d.Outcome.State != bucket.StateReserved {
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
	})
}
