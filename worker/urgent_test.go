package worker_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/worker"
)

// urgent is a call that somebody waits for.
type urgent struct{ call }

func (u urgent) Charges() []reservations.Charge {
	charges := u.call.Charges()
	charges[0].Urgent = true
	return charges
}

// An urgent task starts beside a backlog that waits, and the line of the backlog learns of it at once: nobody is woken in vain.
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
	if s := receive(t, b.starts); s.Outcome.Hold != 0 || s.Place.State != "" {
		t.Errorf("start %+v", s)
	}
	if f := receive(t, b.finishes); f.Result != worker.ResultSucceeded || !f.Charges[0].Urgent {
		t.Errorf("finish %+v", f)
	}
	bucket, _, err := b.store.Bucket(t.Context(), "api", "")
	if err != nil {
		t.Fatal(err)
	}
	line := "api@" + strconv.FormatInt(bucket.Generation, 10)
	eventually(t, "the line is set back by 3 hours", func() bool {
		shift, _ := b.client.HGet(t.Context(), "headway:{line}:clock:"+line, "shift").Int64()
		return (time.Duration(shift)*time.Microsecond + 3*time.Hour).Abs() < time.Minute
	})

	b.enqueue(urgent{call{Cost: 3}})
	if d := receive(t, b.deferrals); d.Outcome.State != reservations.StateExpress || !d.Charge.Urgent {
		t.Errorf("deferral %+v", d)
	}
	for _, name := range []string{line, line + "!"} {
		if n := b.client.ZCard(t.Context(), "headway:{line}:line:"+name).Val(); n != 1 {
			t.Errorf("%d tasks stand in %s", n, name)
		}
	}
}

func TestLatenessOfUrgentTasks(t *testing.T) {
	t.Parallel()
	var l worker.Lateness
	at := time.Now()
	l.Observe("api", reservations.Outcome{At: at, Generation: 7, Version: 1, Headroom: true, Shift: time.Hour, ExpressShift: time.Minute})
	for state, want := range map[reservations.State]time.Duration{reservations.StateReserved: time.Hour, reservations.StateExpress: time.Minute} {
		p := reservations.Place{State: state, Due: at, Generation: 7}
		if got, ok := l.Of("api", p, at); !ok || got != want {
			t.Errorf("%s: %v, %v, want %v", state, got, ok, want)
		}
	}
}
