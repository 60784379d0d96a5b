// Package pace measures how fast the requests of a batch end, and so how long the rest takes.
package pace

import (
	"context"
	"slices"
	"time"

	"github.com/headway-go/headway/internal/batches"
)

const (
	// Window is the time before now in which the rate is measured.
	Window = time.Minute
	// slot is the precision of a rate from stored results.
	slot = time.Second
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

// Step is what ended between two moments.
type Step struct {
	From, To time.Time
	Counts   batches.Counts
}

// Sample is a count and its moment.
type Sample struct {
	At     time.Time
	Counts batches.Counts
}

// Lately is what ended since the work went on last. A gap before it does not count for the rate.
type Lately struct {
	Counts batches.Counts
	Within time.Duration
	Idle   time.Duration // since the last end
	Gap    time.Duration // an idle time above it is unusual
	after  bool          // there was a gap before it
}

// LastRun looks at steps in the order of time, from began on.
func LastRun(steps []Step, began, now time.Time) Lately {
	l := Lately{Idle: now.Sub(began), Gap: max(quiet, Usual*usualPause(steps))}
	if n := len(steps); n > 0 {
		l.Idle = now.Sub(steps[n-1].To)
	}
	for i, s := range slices.Backward(steps) {
		before := began
		if i > 0 {
			before = steps[i-1].To
		}
		l.Counts = l.Counts.Plus(s.Counts)
		if s.From.Sub(before) > l.Gap {
			began, l.after = s.From, true
			break
		}
	}
	l.Within = max(time.Second, now.Sub(began))
	return l
}

// usualPause is the median of the pauses between the steps.
func usualPause(steps []Step) time.Duration {
	if len(steps) < 2 {
		return 0
	}
	pauses := make([]time.Duration, len(steps)-1)
	for i := range pauses {
		pauses[i] = steps[i+1].From.Sub(steps[i].To)
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

// stepsOf are the slots of results that were read.
func stepsOf(slots []batches.Counts) []Step {
	steps := make([]Step, len(slots))
	for i, c := range slots {
		steps[i] = Step{From: c.First, To: c.Last, Counts: c}
	}
	return steps
}

// Watched adds a sample to earlier ones, drops those that are too old, and returns the rate.
func Watched(samples []Sample, s Sample) ([]Sample, Lately) {
	for len(samples) > 1 && s.At.Sub(samples[1].At) >= Window {
		samples = samples[1:]
	}
	samples = append(samples, s)
	l := LastRun(stepsBetween(samples), samples[0].At, s.At)
	if !s.Counts.Last.IsZero() {
		l.Idle = max(0, s.At.Sub(s.Counts.Last))
	}
	return samples, l
}

// Read measures the rate from the stored results of a batch. All are its counts at now. Read reads all results.
func Read(ctx context.Context, store *batches.Store, batch string, all batches.Counts, now time.Time) (Lately, error) {
	if all.Done+all.Failed == 0 {
		return Lately{Within: Window}, nil
	}
	began := now.Add(-Window)
	slots, err := store.Since(ctx, batch, began, slot)
	if err != nil {
		return Lately{}, err
	}
	if all.First.After(began) {
		began = all.First
	}
	l := LastRun(stepsOf(slots), began, now)
	l.Idle = now.Sub(all.Last)
	return l, nil
}

// Left returns how long that many requests take at the measured rate. ok is false if too few have ended lately.
func (l Lately) Left(waiting int) (left time.Duration, ok bool) {
	if !l.Enough() {
		return 0, false
	}
	each := l.Within.Seconds() / float64(l.Counts.Done+l.Counts.Failed)
	return time.Duration(float64(waiting) * each * float64(time.Second)), true
}

// stepsBetween are the changes from sample to sample.
func stepsBetween(samples []Sample) []Step {
	var steps []Step
	for i := 1; i < len(samples); i++ {
		before, after := samples[i-1], samples[i]
		if c := minus(after.Counts, before.Counts); c.Done+c.Failed > 0 {
			steps = append(steps, Step{From: before.At, To: after.At, Counts: c})
		}
	}
	return steps
}

func minus(a, b batches.Counts) batches.Counts {
	a.Done, a.Failed = max(0, a.Done-b.Done), max(0, a.Failed-b.Failed)
	a.Usage.Used, a.Usage.Prompt = max(0, a.Usage.Used-b.Usage.Used), max(0, a.Usage.Prompt-b.Usage.Prompt)
	a.Usage.Reserved = max(0, a.Usage.Reserved-b.Usage.Reserved)
	a.Usage.Completion = max(0, a.Usage.Completion-b.Usage.Completion)
	return a
}
