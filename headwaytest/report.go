package headwaytest

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/products/judge"
)

// Report is what a fleet did since it began.
type Report struct {
	// Took is the time since the fleet began, LastStart that of the last start.
	Took, LastStart time.Duration
	// Tasks are all that arrived. Done are the ones that succeeded, Failed the ones that ended otherwise, Left the ones
	// that have not ended. Unsent are the ones of Left that wait at their producer, because Redis was away.
	Tasks, Done, Failed, Left, Unsent int
	// Lost are tasks that have not ended and are in no queue of asynq. Twice are tasks that succeeded more than once,
	// which happens to tasks of killed workers.
	Lost, Twice int
	// Violations is the number of calls that arrived when a provider had no room. Ignored is the number of calls that
	// arrived more than a second after a refusal that named a time, within that time.
	Violations, Ignored int
	// Use is, for each provider, the part of its limit that was used while tasks waited for it. The times that its
	// refusals named do not count. 1 means that no room went unused for ever. It is that of its most used meter. If no
	// task ever waited, it is 1, and 0 for a provider that accepted no call.
	Use map[string]float64
	// Providers has more of each provider.
	Providers map[string]ProviderReport
	// Wait is the time from the arrival of a task until its first start, Flows the same for each flow. Lateness is the
	// time from the moment at which the buckets let a task run until its handler ran.
	Wait     Quantiles
	Flows    map[string]Quantiles
	Lateness Quantiles
	// Deliveries is how often a task was delivered on average, MostDeliveries the largest number for one task.
	Deliveries     float64
	MostDeliveries int
	// PlacesLost is the largest number of places that a task lost to later ones of the same buckets, flow and priority.
	PlacesLost int
	// Commands is the number of Redis commands.
	Commands int64
	// Errors are what tasks and producers failed with, the last ones first. A refusal by the provider is one as well.
	Errors []Failure

	series series
}

// ProviderReport is what one provider saw.
type ProviderReport struct {
	// Calls are the ones that it accepted. Refused, Failed are the ones that it refused or failed although there was room.
	Calls, Refused, Failed int
	// OwnLimit says that it enforced the fleet's own limit, because its Provider.Meters were not given.
	OwnLimit bool
	// Violations are the first calls that arrived without room, of Count.
	Violations []Violation
	Count      int
	// Ignored are calls within the time that a refusal named, after its first second.
	Ignored int
	// Fullest is the largest number of calls that began within a second.
	Fullest int
}

// Quantiles describe durations. All are zero if there were none.
type Quantiles struct {
	P50, P95, P99, Max time.Duration
}

func quantiles(all []time.Duration) Quantiles {
	if len(all) == 0 {
		return Quantiles{}
	}
	slices.Sort(all)
	at := func(p float64) time.Duration { return all[int(p*float64(len(all)-1)+.5)] }
	return Quantiles{P50: at(.5), P95: at(.95), P99: at(.99), Max: all[len(all)-1]}
}

// Report returns what the fleet has done so far, also while Redis is away.
func (f *Fleet) Report() Report {
	f.t.Helper()
	f.check("Fleet.Report")
	return f.report()
}

func (f *Fleet) report() Report {
	f.t.Helper()
	r := Report{
		Took: f.Elapsed(), Use: map[string]float64{}, Providers: map[string]ProviderReport{}, Flows: map[string]Quantiles{},
		Commands: f.server.Commands(), Errors: f.failures.list(f.began),
	}
	left := f.tasks.report(&r)
	inspector := f.inspector()
	for _, t := range left {
		_, err := inspector.GetTaskInfo(t.task.Queue, t.task.ID)
		switch {
		case err == nil:
		case errors.Is(err, asynq.ErrTaskNotFound) || errors.Is(err, asynq.ErrQueueNotFound):
			if !f.tasks.hasEnded(t) { // or it ended during this look
				r.Lost++
			}
		default:
			f.fatalf("look for tasks that have not ended: %v", err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.apis)) {
		f.apis[name].report(&r)
	}
	return r
}

// report adds what is known of tasks, and returns the ones that have not ended.
func (tr *tracker) report(r *Report) (left []*tracked) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	var waits []time.Duration
	flows := map[string][]time.Duration{}
	deliveries := 0
	for _, t := range tr.all {
		r.Tasks++
		deliveries += t.deliveries
		r.MostDeliveries = max(r.MostDeliveries, t.deliveries)
		if t.done > 1 {
			r.Twice++
		}
		switch {
		case t.done > 0:
			r.Done++
		case t.failed:
			r.Failed++
		case t.unsent:
			r.Left++
			r.Unsent++
		default:
			r.Left++
			left = append(left, t)
		}
		if !t.started.IsZero() {
			wait := t.started.Sub(t.arrived)
			waits, flows[t.flow] = append(waits, wait), append(flows[t.flow], wait)
			r.LastStart = max(r.LastStart, t.started.Sub(tr.fleet.began))
		}
	}
	if r.Tasks > 0 {
		r.Deliveries = float64(deliveries) / float64(r.Tasks)
	}
	r.Wait, r.Lateness = quantiles(waits), quantiles(slices.Clone(tr.late))
	for flow, all := range flows {
		r.Flows[flow] = quantiles(all)
	}
	r.PlacesLost = tr.placesLost()
	r.series = newSeries(tr.fleet.began, r.Took, tr.steps)
	return left
}

// placesLost compares the order of first starts with that of arrivals, in each line of tasks. It requires that tr.mu is
// held.
func (tr *tracker) placesLost() (most int) {
	lines := map[string][]*tracked{}
	for _, t := range tr.starts {
		if t.number > 0 {
			lines[t.line] = append(lines[t.line], t)
		}
	}
	for _, line := range lines {
		started := map[*tracked]int{}
		for i, t := range line {
			started[t] = i
		}
		slices.SortFunc(line, func(a, b *tracked) int { return cmp.Or(a.arrived.Compare(b.arrived), a.number-b.number) })
		for i, t := range line {
			most = max(most, started[t]-i)
		}
	}
	return most
}

// report adds what the provider saw.
func (a *API) report(r *Report) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	use := make([]use, len(a.Meters))
	for _, acc := range a.accounts {
		acc.fill(now)
		for i, u := range acc.use {
			use[i].room += u.room
			use[i].unused += u.unused
		}
	}
	if r.Use[a.name] = mostUsed(use); len(a.calls) == 0 {
		r.Use[a.name] = 0
	}
	r.Violations += a.count
	r.Ignored += a.ignored
	r.Providers[a.name] = ProviderReport{
		Calls: len(a.calls), Refused: a.refused, Failed: a.failed, Ignored: a.ignored, Fullest: fullest(a.calls),
		Violations: slices.Clone(a.violations), Count: a.count, OwnLimit: a.copied,
	}
	r.series.add(a.name, a.fleet.began, a.calls)
}

// mostUsed returns the used part of the most used meter, of all that had room while a task waited: 1 if there is none.
func mostUsed(all []use) float64 {
	most, waited := 0., false
	for _, u := range all {
		if u.room > judge.Rounding {
			most, waited = max(most, 1-u.unused/u.room), true
		}
	}
	if !waited {
		return 1
	}
	return most
}

// fullest returns the largest number of times within a second.
func fullest(times []time.Time) (most int) {
	first := 0
	for i, at := range times {
		for at.Sub(times[first]) > time.Second {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}
