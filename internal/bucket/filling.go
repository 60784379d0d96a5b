package bucket

import (
	"math"
	"time"
)

// Filling is how a meter fills. A bucket keeps it for each meter, so that a changed limit is noticed.
type Filling struct {
	// Rate is what comes back every second, or at the end of each window. That of an adaptive meter is the present one.
	Rate float64 `json:"rate" bson:"rate"`
	// Capacity is the most that a balance holds.
	Capacity float64 `json:"cap" bson:"cap"`
	// Headroom is the part of the capacity that only urgent tasks use.
	Headroom float64 `json:"headroom,omitempty" bson:"head,omitempty"`
	// Least and Most bound the rate of an adaptive meter; zero for other meters.
	Least float64 `json:"least,omitempty" bson:"least,omitempty"`
	Most  float64 `json:"most,omitempty" bson:"most,omitempty"`
	// Ramp is that of an adaptive meter.
	Ramp time.Duration `json:"ramp,omitempty" bson:"ramp,omitempty"`
	// Period is that of a window; zero for a token bucket.
	Period time.Duration `json:"period,omitempty" bson:"period,omitempty"`
	// Offset is where in the Period windows start, counted from the Unix epoch.
	Offset time.Duration `json:"offset,omitempty" bson:"offset,omitempty"`
	// InFlight says that nothing refills the meter but the end of a call.
	InFlight bool `json:"in_flight,omitempty" bson:"fly,omitempty"`
}

// nearlyNone is how many tokens count as none: rounding must not cost a wait.
const nearlyNone = 1e-9

func (f Filling) windowed() bool { return f.Period > 0 }

// window is the number of the window that a moment falls into.
func (f Filling) window(at time.Time) int64 {
	since := time.Duration(at.UnixNano()) - f.Offset
	n := int64(since / f.Period)
	if since%f.Period < 0 {
		n--
	}
	return n
}

// passed is how many tokens come back between two moments: none where the second is not later.
func (f Filling) passed(from, to time.Time) float64 {
	switch {
	case !to.After(from):
		return 0
	case f.windowed():
		return f.Rate * float64(f.window(to)-f.window(from))
	default:
		return to.Sub(from).Seconds() * f.Rate
	}
}

// until is how long after a moment x tokens have come back: rounded up to a nanosecond, at most MaxWait, never
// negative.
func (f Filling) until(at time.Time, x float64) time.Duration {
	if x <= nearlyNone {
		return 0
	}
	if !f.windowed() {
		return time.Duration(math.Ceil(min(x/f.Rate, MaxWait.Seconds()) * float64(time.Second)))
	}
	windows := math.Ceil((x - nearlyNone) / f.Rate)
	if windows > float64(MaxWait/f.Period) {
		return MaxWait
	}
	ends := time.Duration(f.window(at)+int64(windows))*f.Period + f.Offset
	return ends - time.Duration(at.UnixNano())
}
