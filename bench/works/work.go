// Package works holds what the contestants are given to do.
package works

import (
	"slices"
	"time"

	"github.com/headway-go/headway/bench/contest"
)

// Work is one thing to do, the same for every contestant.
type Work struct {
	// Name is short and how ONLY names it; Letter is that of the goals table.
	Name, Letter string
	// About says in a sentence or two what is done, for the report.
	About string
	// Limits of the run; empty means none.
	Limits []contest.Limit
	// Workers is the number of processes (zero means 2), Slots that of handlers at once in each (zero means 10).
	Workers, Slots int
	// Tasks are all tasks, in the order of enqueueing.
	Tasks []contest.Task
	// At are the times at which they are enqueued, since the beginning; nil means all at once.
	At []time.Duration
	// Backlog has the tasks enqueued before the workers are started.
	Backlog bool
	// Local counts calls in the workers: no HTTP.
	Local bool
	// Answer is the longest time that the provider takes to answer.
	Answer time.Duration
	// Phases has the run judged in two: until every task was delivered once, and for so many starts after that. Zero means one phase.
	Phases int
	// Left is how many tasks may be left when the run ends.
	Left int
	// UntilKey has the run end when all tasks of that key have started.
	UntilKey string
	// Sorting ends the run when every task has its place, or was delivered once, and measures the rate of that.
	Sorting bool
	// Down kills the workers at a time and starts new ones after a while.
	Down Outage
	// Idle is a run without tasks, of this length.
	Idle time.Duration
	// Others is about how long those take who are not Headway, for the estimate of the whole; zero means Ideal.
	Others time.Duration
	// Ideal is how long a perfect contestant takes, Limit the time after which the others are cut off (zero: 2.5 times Ideal, at least 40 s).
	Ideal, Cut time.Duration
	// For names the contestants that take part; nil means all. Rivals are those of For that a goal compares with: they run as often as Headway.
	For, Rivals []string
	// Unlimited names the contestants for whom the limits are left out: they are the ceiling.
	Unlimited []string
	// Series says what is kept for the plots.
	Series bool
}

// Outage is a time without workers. Zero means none.
type Outage struct{ At, For time.Duration }

// CutAfter is when a run is cut off, since its beginning.
func (w Work) CutAfter() time.Duration {
	if w.Cut > 0 {
		return w.Cut
	}
	return max(40*time.Second, w.Ideal*5/2)
}

// PublicFor is what the contestant may know of it.
func (w Work) PublicFor(contestant string) contest.Work {
	public := contest.Work{Name: w.Name, Limits: w.LimitsFor(contestant)}
	for _, t := range w.Tasks {
		public.Overestimated = public.Overestimated || t.Reserved > t.Used
	}
	return public
}

// LimitsFor are the limits that the contestant keeps.
func (w Work) LimitsFor(contestant string) []contest.Limit {
	if slices.Contains(w.Unlimited, contestant) {
		return nil
	}
	return w.Limits
}

// Wanted is how many starts end the run.
func (w Work) Wanted() int {
	wanted := 0
	for _, t := range w.Tasks {
		if w.UntilKey == "" || t.Key == w.UntilKey {
			wanted++
		}
	}
	return wanted - w.Left
}

// Runs says whether the contestant of that name takes part.
func (w Work) Runs(contestant string) bool { return w.For == nil || slices.Contains(w.For, contestant) }

// Often says whether the contestant runs as often as Headway.
func (w Work) Often(contestant string) bool { return slices.Contains(w.Rivals, contestant) }

// uniform are n tasks of one key that take a token each.
func uniform(n int, key string) []contest.Task {
	list := make([]contest.Task, n)
	for i := range list {
		list[i] = contest.Task{Seq: i, Key: key, Reserved: 1, Used: 1}
	}
	return list
}

// paced is n moments, rate a second.
func paced(n int, rate float64) []time.Duration {
	at := make([]time.Duration, n)
	for i := range at {
		at[i] = time.Duration(float64(i) / rate * float64(time.Second))
	}
	return at
}
