// Package works lists the works of the contestants.
package works

import (
	"slices"
	"time"

	"github.com/headway-go/headway/bench/contest"
)

// Work is one work, the same for every contestant.
type Work struct {
	// Name is short; ONLY takes such names. Letter is the letter in the table of goals.
	Name, Letter string
	// About describes the work in a sentence or two, for the report.
	About string
	// Changed is the day, e.g. "2026-11-25", since which the work measures what it measures now. The report names works
	// with older results. Empty means always.
	Changed string
	// Limits of the run; empty means none.
	Limits []contest.Limit
	// Workers is the number of processes (zero means 2), Slots the number of handlers of each (zero means 10).
	Workers, Slots int
	// Tasks are all tasks, in the order of enqueueing.
	Tasks []contest.Task
	// At are the enqueue times since the beginning. Nil means all at once.
	At []time.Duration
	// Backlog enqueues the tasks before the workers start.
	Backlog bool
	// Local counts calls in the workers, without HTTP.
	Local bool
	// Answer is the longest latency of the provider.
	Answer time.Duration
	// First ends a run of a Backlog after that many starts. The cost of a task is the cost of these starts, plus its
	// share of the enqueue. Zero means all starts.
	First int
	// Left is the number of tasks that may be left at the end of the run.
	Left int
	// UntilKey ends the run when all tasks of that key have started.
	UntilKey string
	// EnqueueOnly ends the run when all tasks are enqueued. No worker runs.
	EnqueueOnly bool
	// Down kills the workers at a time and starts new ones after a while.
	Down Outage
	// Idle is the length of a run without tasks.
	Idle time.Duration
	// Others is the approximate duration of the other contestants, for the estimate. Zero means Ideal.
	Others time.Duration
	// Ideal is the duration of a perfect contestant. Cut is the time after which a run is cut off (zero: 2.5 times
	// Ideal, at least 40 s).
	Ideal, Cut time.Duration
	// For names the contestants that take part; nil means all. Rivals are the contestants of For in a goal: they run
	// as often as Headway.
	For, Rivals []string
	// Unlimited names the contestants that run without the limits, as an upper bound.
	Unlimited []string
	// Series stores the starts in each second, for the plots.
	Series bool
}

// Outage is a time without workers. Zero means none.
type Outage struct{ At, For time.Duration }

// CutAfter returns the time since its beginning at which a run is cut off.
func (w Work) CutAfter() time.Duration {
	if w.Cut > 0 {
		return w.Cut
	}
	return max(40*time.Second, w.Ideal*5/2)
}

// PublicFor describes the work to a contestant.
func (w Work) PublicFor(contestant string) contest.Work {
	public := contest.Work{Name: w.Name, Limits: w.LimitsFor(contestant)}
	for _, t := range w.Tasks {
		public.Overestimated = public.Overestimated || t.Reserved > t.Used
	}
	return public
}

// LimitsFor returns the limits of the contestant.
func (w Work) LimitsFor(contestant string) []contest.Limit {
	if slices.Contains(w.Unlimited, contestant) {
		return nil
	}
	return w.Limits
}

// Wanted returns the number of starts that end the run.
func (w Work) Wanted() int {
	wanted := 0
	for _, t := range w.Tasks {
		if w.UntilKey == "" || t.Key == w.UntilKey {
			wanted++
		}
	}
	if w.First > 0 {
		return min(wanted, w.First)
	}
	return wanted - w.Left
}

// Runs returns whether the contestant of that name takes part.
func (w Work) Runs(contestant string) bool { return w.For == nil || slices.Contains(w.For, contestant) }

// Often returns whether the contestant runs as often as Headway.
func (w Work) Often(contestant string) bool { return slices.Contains(w.Rivals, contestant) }

// uniform returns n tasks of one key that take one token each.
func uniform(n int, key string) []contest.Task {
	list := make([]contest.Task, n)
	for i := range list {
		list[i] = contest.Task{Seq: i, Key: key, Reserved: 1, Used: 1}
	}
	return list
}

// paced returns n times, rate a second.
func paced(n int, rate float64) []time.Duration {
	at := make([]time.Duration, n)
	for i := range at {
		at[i] = time.Duration(float64(i) / rate * float64(time.Second))
	}
	return at
}
