// Package pace measures how fast the requests of a batch end, and so how long the rest takes.
package pace

import (
	"slices"
	"time"

	"github.com/headway-go/headway/internal/batches"
)

const (
	// quiet is the shortest time without an ended request that is shown. After it, the time before it does not count
	// for the rate.
	quiet = 10 * time.Second
	// Shortest is the least time that a rate is measured for.
	Shortest = 5 * time.Second
	// settled is Shortest after a gap: workers that have just begun may end many requests at once, and then none for as
	// long as one takes.
	settled = 15 * time.Second
	// Usual is how many times the usual pause between two ends is a gap.
	Usual = 3
)

// Lately is what ended since the work went on last. A gap before it does not count for the rate.
type Lately struct {
	Counts batches.Counts
	Within time.Duration
	Idle   time.Duration // since the last end
	Gap    time.Duration // an idle time above it is unusual
	after  bool          // there was a gap before it
}

// Of measures the rate of a batch from the results of the last minute.
func Of(p batches.Progress, now time.Time) Lately {
	if p.Done+p.Failed == 0 {
		return Lately{Within: batches.Window}
	}
	began := now.Add(-batches.Window)
	if p.First.After(began) {
		began = p.First
	}
	l := lastRun(p.Lately, began, now)
	l.Idle = max(0, now.Sub(p.Last))
	return l
}

// lastRun looks at steps in the order of time, from began on.
func lastRun(steps []batches.Counts, began, now time.Time) Lately {
	l := Lately{Idle: now.Sub(began), Gap: max(quiet, Usual*usualPause(steps))}
	if n := len(steps); n > 0 {
		l.Idle = now.Sub(steps[n-1].Last)
	}
	for i, s := range slices.Backward(steps) {
		before := began
		if i > 0 {
			before = steps[i-1].Last
		}
		l.Counts = l.Counts.Plus(s)
		if s.First.Sub(before) > l.Gap {
			began, l.after = s.First, true
			break
		}
	}
	l.Within = max(time.Second, now.Sub(began))
	return l
}

// usualPause is the median of the pauses between the steps.
func usualPause(steps []batches.Counts) time.Duration {
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

// Enough reports whether the end can be estimated.
func (l Lately) Enough() bool {
	least := Shortest
	if l.after {
		least = settled
	}
	return l.Counts.Done+l.Counts.Failed >= 5 && l.Within >= least && !l.Stalled()
}

// Stalled reports whether nothing has ended for an unusual time.
func (l Lately) Stalled() bool { return l.Idle > l.Gap }

// Left returns how long that many requests take at the measured rate. ok is false if too few have ended lately.
func (l Lately) Left(waiting int) (left time.Duration, ok bool) {
	if !l.Enough() {
		return 0, false
	}
	each := l.Within.Seconds() / float64(l.Counts.Done+l.Counts.Failed)
	return time.Duration(float64(waiting) * each * float64(time.Second)), true
}
