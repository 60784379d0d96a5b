package e2e_test

import (
	"testing"
	"time"

	"github.com/headway-go/headway/internal/longtest"
)

// adaptiveRefusals is the largest number of refused calls within 40 seconds of a constant hidden limit, and within 15
// seconds after it halves. Decision 5 has the figures of other rates.
const adaptiveRefusals = 25

// The provider has a hidden limit, which halves and doubles again. The fleet finds it: it uses 90 % of the limit, and
// each change costs a bounded number of refusals.
//
//nolint:paralleltest // measures a limit: it has the machine for itself
func TestAdaptiveFindsAHiddenLimit(t *testing.T) {
	longtest.Only(t, 180*time.Second)
	const rate, tasks, phase = 50, 5600, 40 * time.Second
	w := newWorld(t, setting{
		limit:    "{meters: {requests: {adaptive: {min: 10/s, max: 100/s, ramp: 1m}, capacity: 10}}}",
		provider: []string{"-requests-rate=50", "-requests-capacity=50", "-hidden-after=60s", "-hidden-for=40s"},
	})
	w.enqueue(t, smallChats(1, tasks))
	w.start(t, fleet)
	w.awaitCompleted(t, tasks)
	w.wantNoRetries(t)
	f := w.finish(t)
	f.wantOnce(t, tasks)
	within := func(at []time.Time, from, d time.Duration) (n int) {
		for _, x := range at {
			if since := x.Sub(f.FirstStart); since >= from && since < from+d {
				n++
			}
		}
		return n
	}
	used, all := 0., 0.
	for i, share := range []float64{1, .5, 1} {
		from := 20*time.Second + time.Duration(i)*phase // before that it climbs from the lowest rate
		n, most := within(f.Times, from, phase), rate*share*phase.Seconds()
		refused := within(f.Hidden, from, phase)
		t.Logf("from %v on: %d calls of %v, %.1f %%; %d refused, %d of them within 15 s", from, n, most, 100*float64(n)/most,
			refused, within(f.Hidden, from, 15*time.Second))
		used, all = used+float64(n), all+most
		if i != 1 && refused > adaptiveRefusals {
			t.Errorf("%d calls were refused, wanted at most %d", refused, adaptiveRefusals)
		}
	}
	if share := used / all; share < .9 {
		t.Errorf("%.1f %% of the hidden limit was used, wanted 90 %%", 100*share)
	}
	if n := within(f.Hidden, 20*time.Second+phase, 15*time.Second); n > adaptiveRefusals {
		t.Errorf("the halved limit cost %d refusals, wanted at most %d", n, adaptiveRefusals)
	}
}
