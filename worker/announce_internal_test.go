package worker

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/reservations"
)

// What a start tells of its lateness: from the end of the hold where the task was only held, from its place where it stood in a line.
func TestLatenessOfAStart(t *testing.T) {
	t.Parallel()
	const hold, ago = 200 * time.Millisecond, 230 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		at := time.Now().Add(-ago)
		plain := reservations.Outcome{State: reservations.StateStarted, At: at, Generation: 1}
		held := plain
		held.Hold = hold
		line := reservations.Place{State: reservations.StateReserved, Due: at.Add(100 * time.Millisecond), Generation: 1}
		forgotten := line
		forgotten.Generation = 7
		for _, c := range []struct {
			name         string
			place        reservations.Place
			outcomes     []reservations.Outcome
			want         time.Duration
			waited, held bool
		}{
			{name: "unlimited"},
			{name: "at once", outcomes: []reservations.Outcome{plain}},
			{name: "only held", outcomes: []reservations.Outcome{held}, want: ago - hold, held: true},
			{name: "held by one of two", outcomes: []reservations.Outcome{plain, held}, want: ago - hold, held: true},
			{name: "waited", place: line, outcomes: []reservations.Outcome{plain}, want: ago - 100*time.Millisecond, waited: true},
			{name: "waited and held", place: line, outcomes: []reservations.Outcome{held}, want: ago - 100*time.Millisecond, waited: true},
			{name: "waited, the bucket was forgotten", place: forgotten, outcomes: []reservations.Outcome{held}},
		} {
			var got Start
			g := &gate{log: slog.New(slog.DiscardHandler), lateness: &Lateness{}, events: Events{OnStart: func(s Start) { got = s }}}
			d := &delivery{task: asynq.NewTask("any", nil)}
			for _, o := range c.outcomes {
				one := &claim{charge: reservations.Charge{Limit: "api"}, outcome: o, decided: at, latest: at}
				g.lateness.Observe(one.charge.Bucket(), o)
				d.claims = append(d.claims, one)
			}
			if len(d.claims) > 0 {
				d.waited = d.claims[0]
				d.waited.place = c.place
			}
			g.announce(t.Context(), d)
			if got.Lateness != c.want || got.Waited != c.waited || got.Held != c.held {
				t.Errorf("%s: late by %v, waited %v, held %v", c.name, got.Lateness, got.Waited, got.Held)
			}
		}
	})
}
