package simulate

import (
	"math"
	"slices"
	"time"
)

// Waits are how long calls waited from their arrival to their start. All are zero where no call started.
type Waits struct {
	Calls                          int
	Mean, P50, P90, P99, P999, Max time.Duration
}

// waitsOf sorts waits.
func waitsOf(all []time.Duration) (w Waits) {
	if w.Calls = len(all); w.Calls == 0 {
		return w
	}
	slices.Sort(all)
	sum := 0.
	for _, d := range all {
		sum += float64(d)
	}
	w.Mean = time.Duration(sum / float64(len(all)))
	of := func(q float64) time.Duration { return all[max(0, int(math.Ceil(q*float64(len(all))))-1)] }
	w.P50, w.P90, w.P99, w.P999, w.Max = of(.5), of(.9), of(.99), of(.999), of(1)
	return w
}
