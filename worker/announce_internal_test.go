package worker

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/line/dispatcher"
	"github.com/headway-go/headway/internal/line/waitlist"
	"github.com/headway-go/headway/reservations"
)

// startedAt is a start whose buckets answered at one moment.
type startedAt struct {
	start

	outcomes []reservations.Outcome
	at       time.Time
}

func (s startedAt) Charges() []reservations.Charge {
	return make([]reservations.Charge, len(s.outcomes))
}
func (s startedAt) Outcomes() []reservations.Outcome { return s.outcomes }

func (s startedAt) Ready() (ready time.Time) {
	for _, o := range s.outcomes {
		ready = bucket.Later(ready, s.at.Add(o.Hold))
	}
	return ready
}

// The lateness of a start counts from the end of the longest hold.
func TestLatenessOfAStart(t *testing.T) {
	t.Parallel()
	const hold, ago = 200 * time.Millisecond, 230 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		at := time.Now().Add(-ago)
		plain := reservations.Outcome{State: bucket.StateStarted, At: at}
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
			g := &guard{journal: journal{
				log: slog.New(slog.DiscardHandler), events: []func(Event){func(e Event) { got = e }},
			}}
			d := &delivery{task: asynq.NewTask("any", nil), turn: dispatcher.Turn{Arrived: waitlist.Arrived{State: c.status}}}
			if len(c.outcomes) > 0 {
				d.start = startedAt{outcomes: c.outcomes, at: at}
			}
			g.announce(t.Context(), d)
			if got.Lateness != c.want || got.Waited != c.waited {
				t.Errorf("%s: late by %v, waited %v", c.name, got.Lateness, got.Waited)
			}
		}
	})
}
