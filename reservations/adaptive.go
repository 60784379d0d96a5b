package reservations

import (
	"time"

	"github.com/headway-go/headway/internal/bucket"
)

// Adaptive lets the rate of a meter find itself between two bounds, for a provider whose limit is not known or changes.
// While tasks use what comes back, the rate climbs. A refusal by the provider (Block) lowers it, and so does a provider
// that says that little is left (Sync). The bucket keeps the present rate, so the whole fleet has the same.
type Adaptive struct {
	// Max is the highest rate, in tokens every Period of the meter; its Rate is the lowest. Zero means a fixed rate.
	Max float64
	// Ramp is how long the rate climbs from the lowest to the highest, at least. An unused meter loses it again in the
	// same time, so that a fleet begins slowly after a quiet time. Zero means RampDefault, and that an unused meter keeps
	// its rate for a day.
	Ramp time.Duration
}

func (m Meter) validateAdaptive(fault func(field, format string, args ...any)) {
	a := m.Adaptive
	if a == (Adaptive{}) {
		return
	}
	if m.windowed() {
		fault("adaptive", "a fixed window can't find its rate, only a token bucket can")
	}
	if !positive(a.Max) || a.Max < m.Rate {
		fault("adaptive.max", "%v must be a number of tokens that is no less than the lowest rate, %v, up to %g",
			a.Max, m.Rate, bucket.LargestAmount)
	}
	if a.Ramp < 0 {
		fault("adaptive.ramp", "%v must not be negative; zero means %v", a.Ramp, bucket.RampDefault)
	}
}
