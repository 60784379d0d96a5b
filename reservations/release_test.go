package reservations_test

import (
	"testing"
	"time"

	"github.com/headway-go/headway/reservations"
)

// Whoever comes after tasks that were taken back waits for none of them: what kept their places in a meter that is not scarce goes with them.
func TestReleaseLeavesNoGap(t *testing.T) {
	t.Parallel()
	limit := reservations.Limit{Name: "api", Meters: []reservations.Meter{
		{Name: "requests", Rate: 2, Period: time.Second, Capacity: 2, MaxReserved: reservations.Unlimited},
		{Name: "tokens", Rate: 200_000, Period: time.Minute, Capacity: 20_000, MaxReserved: reservations.Unlimited},
	}}
	for name, tokens := range map[string]float64{"some": 800, "few": 10, "none": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, now := reservations.Bucket{}, clock(1000)
			ask := func(op reservations.Op, s reservations.State) (o reservations.Outcome) {
				b, o = reservations.Step(b, limit, now, reservations.Request{Op: op, State: s, Tokens: []float64{1, tokens}})
				return o
			}
			const n = 300
			for range n {
				if o := ask(reservations.OpReserve, ""); o.State != reservations.StateReserved {
					t.Fatalf("%+v", o)
				}
			}
			for i := range n {
				if i%30 == 0 {
					now = now.Add(100 * time.Millisecond)
				}
				ask(reservations.OpRelease, reservations.StateReserved)
				if i == n/2 {
					if wait := ask(reservations.OpReserve, "").Wait(); wait < 60*time.Second || wait > 75*time.Second {
						t.Errorf("with half of them there the next one waits for %v", wait)
					}
					ask(reservations.OpRelease, reservations.StateReserved)
				}
			}
			if o := ask(reservations.OpBegin, ""); !o.Started() || o.Hold > 0 {
				t.Errorf("with nobody there the next one is told %+v", o)
			}
		})
	}
}
