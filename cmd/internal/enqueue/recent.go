package enqueue

import (
	"slices"
	"time"

	"github.com/headway-go/headway/internal/batches"
)

const (
	// window is how far back is looked for the rate at which requests end.
	window = time.Minute
	// slot is how exact that is where the results are read, instead of watched.
	slot = time.Second
	// quiet is the shortest time without an ended request that is shown. After it, the time before it does not count
	// for the rate.
	quiet = 10 * time.Second
	// shortest is the least time that a rate is measured for.
	shortest = 5 * time.Second
	// settled is shortest after a gap: workers that have just begun may end many requests at once, and then none for as
	// long as one takes.
	settled = 15 * time.Second
	// usual is how many times the usual pause between two ends is a gap.
	usual = 3
)

// step is what ended between two moments.
type step struct {
	from, to time.Time
	counts   batches.Counts
}

// lately is what ended since the work went on last: a gap in which nothing ran says nothing of how fast it goes.
type lately struct {
	counts batches.Counts
	within time.Duration
	after  bool          // there was a gap before it
	idle   time.Duration // since the last end
	gap    time.Duration // how long nothing has to end until that is out of the ordinary
}

// lastRun looks at steps in the order of time, from began on.
func lastRun(steps []step, began, now time.Time) lately {
	l := lately{idle: now.Sub(began), gap: max(quiet, usual*usualPause(steps))}
	if n := len(steps); n > 0 {
		l.idle = now.Sub(steps[n-1].to)
	}
	for i, s := range slices.Backward(steps) {
		before := began
		if i > 0 {
			before = steps[i-1].to
		}
		l.counts = l.counts.Plus(s.counts)
		if s.from.Sub(before) > l.gap {
			began, l.after = s.from, true
			break
		}
	}
	l.within = max(time.Second, now.Sub(began))
	return l
}

// usualPause is the median of the pauses between the steps.
func usualPause(steps []step) time.Duration {
	if len(steps) < 2 {
		return 0
	}
	pauses := make([]time.Duration, len(steps)-1)
	for i := range pauses {
		pauses[i] = steps[i+1].from.Sub(steps[i].to)
	}
	slices.Sort(pauses)
	return pauses[len(pauses)/2]
}

// enough says whether the end can be estimated from it.
func (l lately) enough() bool {
	least := shortest
	if l.after {
		least = settled
	}
	return l.counts.Done+l.counts.Failed >= 5 && l.within >= least && !l.stalled()
}

// stalled says that nothing has ended for longer than usual.
func (l lately) stalled() bool { return l.idle > l.gap }

// stepsOf are the slots of results that were read.
func stepsOf(slots []batches.Counts) []step {
	steps := make([]step, len(slots))
	for i, c := range slots {
		steps[i] = step{from: c.First, to: c.Last, counts: c}
	}
	return steps
}

// stepsBetween are the changes from sample to sample.
func stepsBetween(samples []sample) []step {
	var steps []step
	for i := 1; i < len(samples); i++ {
		before, after := samples[i-1], samples[i]
		if c := minus(after.counts, before.counts); c.Done+c.Failed > 0 {
			steps = append(steps, step{from: before.at, to: after.at, counts: c})
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
