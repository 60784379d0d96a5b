package batches

import (
	"slices"
	"time"
)

const (
	// quiet is the shortest time without an ended request that is shown. After it, the time before it does not count
	// for the rate.
	quiet = 10 * time.Second
	// MeasuredLeast is the least time that a rate is measured for.
	MeasuredLeast = 5 * time.Second
	// settled is MeasuredLeast after a gap: workers that have just begun may end many requests at once, and then none for
	// as long as one takes.
	settled = 15 * time.Second
	// UsualPauses is how many times the usual pause between two ends is a gap.
	UsualPauses = 3
)

// Pace is how fast requests ended since the work went on last. A gap before it does not count for the rate.
type Pace struct {
	Ended  Counts
	Within time.Duration
	Idle   time.Duration // since the last end
	Gap    time.Duration // an idle time above it is unusual
	after  bool          // there was a gap before it
}

// Pace measures the rate of a batch from the results of the last Window.
func (p Progress) Pace(now time.Time) Pace {
	if p.Done+p.Failed == 0 {
		return Pace{Within: Window}
	}
	began := now.Add(-Window)
	if p.First.After(began) {
		began = p.First
	}
	l := Pace{Idle: max(0, now.Sub(p.Last)), Gap: max(quiet, UsualPauses*usualPause(p.Lately))}
	for i, s := range slices.Backward(p.Lately) {
		before := began
		if i > 0 {
			before = p.Lately[i-1].Last
		}
		l.Ended = l.Ended.Plus(s)
		if s.First.Sub(before) > l.Gap {
			began, l.after = s.First, true
			break
		}
	}
	l.Within = max(time.Second, now.Sub(began))
	return l
}

// usualPause is the median of the pauses between the steps.
func usualPause(steps []Counts) time.Duration {
	if len(steps) < 2 {
		return 0
	}
	pauses := make([]time.Duration, len(steps)-1)
	for i := range pauses {
		pauses[i] = steps[i+1].First.Sub(steps[i].Last)
	}
	slices.Sort(pauses)
	return pauses[len(pauses)/2]
}

// Stalled reports whether nothing has ended for an unusual time.
func (l Pace) Stalled() bool { return l.Idle > l.Gap }

// Left returns how long that many requests take at the measured rate. ok is false if too few have ended lately.
func (l Pace) Left(waiting int) (left time.Duration, ok bool) {
	least, ended := MeasuredLeast, l.Ended.Done+l.Ended.Failed
	if l.after {
		least = settled
	}
	if ended < 5 || l.Within < least || l.Stalled() {
		return 0, false
	}
	each := l.Within.Seconds() / float64(ended)
	return time.Duration(float64(waiting) * each * float64(time.Second)), true
}
