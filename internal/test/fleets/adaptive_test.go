package fleets_test

import (
	"testing"
	"time"

	"github.com/headway-go/headway/headwaytest"
	"github.com/headway-go/headway/reservations"
)

// The API has a hidden limit, which halves and doubles again. The fleet finds it: it uses 88 % of the limit, and each
// change costs a bounded number of refusals.
func TestAdaptiveFindsAHiddenLimit(t *testing.T) {
	adaptive := perSecond(1, 2)
	adaptive.Adaptive = reservations.Adaptive{Max: 10, Ramp: time.Minute}
	api := headwaytest.Provider{
		Meters:  []reservations.Meter{perSecond(5, 5)},
		Latency: headwaytest.Between(50*time.Millisecond, 500*time.Millisecond),
	}
	in(t, world{limits: []reservations.Limit{limit(adaptive)}, provider: api}, func(f *fleet) {
		const rate, phase = 5, 40 * time.Second
		f.start(size)
		f.Backlog(580, numbered)
		f.Run(20 * time.Second) // it climbs from the lowest rate
		used := 0.
		for _, share := range []float64{1, .5, 1} {
			f.api.SetMeters(perSecond(rate*share, rate*share))
			from, before := time.Now(), f.Report().Providers["api"]
			f.Run(15 * time.Second)
			soon := f.Report().Providers["api"]
			f.Run(phase - 15*time.Second)
			after := f.Report().Providers["api"]
			most := rate * share * phase.Seconds()
			n := float64(after.Calls - before.Calls)
			refused := after.Count - before.Count
			t.Logf("from %v on: %g calls of %g, %d refused, %d of them within 15 s",
				from, n, most, refused, soon.Count-before.Count)
			if used += n; refused > 12 {
				t.Errorf("%d calls were refused", refused)
			}
		}
		if share := used / (2.5 * rate * phase.Seconds()); share < .88 {
			t.Errorf("%.1f %% of the hidden limit was used, wanted 88 %%", 100*share)
		}
		if r := f.Report(); r.Left == 0 || r.Lost > 0 || r.Failed > 0 || r.Ignored > 0 {
			t.Error(r)
		}
	})
}
