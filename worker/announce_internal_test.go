package worker

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/engine"
	"github.com/headway-go/headway/internal/waitlist"
	"github.com/headway-go/headway/reservations"
)

// The lateness of a start counts from the end of the longest hold.
func TestLatenessOfAStart(t *testing.T) {
	t.Parallel()
	const hold, ago = 200 * time.Millisecond, 230 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		at := time.Now().Add(-ago)
		plain := reservations.Outcome{State: reservations.StateStarted, At: at}
		held := plain
		held.Hold = hold
		for _, c := range []struct {
			name     string
			outcomes []reservations.Outcome
			status   waitlist.State
			want     time.Duration
			waited   bool
		}{
			{name: "unlimited", status: waitlist.StateNew},
			{name: "at once", status: waitlist.StateNew, outcomes: []reservations.Outcome{plain}, want: ago},
			{name: "only held", status: waitlist.StateNew, outcomes: []reservations.Outcome{held}, want: ago - hold},
			{
				name: "held by the first of two", status: waitlist.StateNew, outcomes: []reservations.Outcome{held, plain},
				want: ago - hold,
			},
			{
				name: "promoted", status: waitlist.StatePromoted, outcomes: []reservations.Outcome{held}, want: ago - hold,
				waited: true,
			},
		} {
			var got Event
			g := &guard{log: slog.New(slog.DiscardHandler), events: []func(Event){func(e Event) { got = e }}}
			d := &delivery{task: asynq.NewTask("any", nil), turn: engine.Turn{Arrived: waitlist.Arrived{State: c.status}}}
			for _, o := range c.outcomes {
				d.claims = append(d.claims, &reservations.Claim{
					Charge: reservations.Charge{Limit: "api"}, Outcome: o, Decided: at, Ready: at.Add(o.Hold),
				})
			}
			g.announce(t.Context(), d)
			if got.Lateness != c.want || got.Waited != c.waited {
				t.Errorf("%s: late by %v, waited %v", c.name, got.Lateness, got.Waited)
			}
		}
	})
}
