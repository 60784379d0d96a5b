package e2e_test

import (
	"cmp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/longtest"
	"github.com/headway-go/headway/internal/provider"
)

// slots is the largest number of concurrent calls.
const slots = 20

// callsInFlight returns the settings for slots calls in flight, with latencies between from and to.
func callsInFlight(from, to string) setting {
	return setting{
		limit:    "{in_flight: 20}",
		provider: []string{"-in-flight=20", "-min-latency=" + from, "-max-latency=" + to},
	}
}

// turns are the times at which the number of running calls changes, in order.
type turns []turn

type turn struct {
	at time.Time
	by int
}

func turnsOf(r provider.Report) turns {
	var all turns
	for i, at := range r.Times {
		if all = append(all, turn{at, 1}); !r.Ends[i].IsZero() {
			all = append(all, turn{r.Ends[i], -1})
		}
	}
	slices.SortStableFunc(all, func(a, b turn) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.by, b.by)) })
	return all
}

// most returns the largest number of concurrent calls.
func (ts turns) most() (most int) {
	n := 0
	for _, t := range ts {
		n += t.by
		most = max(most, n)
	}
	return most
}

// used returns the used share of the slots between two times.
func (ts turns) used(from, to time.Time) float64 {
	n, last, sum := 0, from, 0.
	for _, t := range append(slices.Clone(ts), turn{at: to}) {
		if at := t.at; at.After(last) && !at.After(to) {
			sum += float64(n) * at.Sub(last).Seconds()
			last = at
		}
		n += t.by
		if !t.at.Before(to) {
			break
		}
	}
	return sum / slots / to.Sub(from).Seconds()
}

// full returns the first time after another one at which all slots are used.
func (ts turns) full(after time.Time) time.Time {
	n := 0
	for _, t := range ts {
		if n += t.by; n == slots && t.at.After(after) {
			return t.at
		}
	}
	return time.Time{}
}

// Two of three processes are killed. Their slots are free within 30 seconds, and there are never 21 calls in flight.
//
//nolint:paralleltest // measures a limit: it has the machine for itself
func TestCallsInFlightKilled(t *testing.T) {
	longtest.Only(t, 170*time.Second)
	const tasks, last = 300, 270
	w := newWorld(t, callsInFlight("50ms", "5s"))
	w.program = programPlain
	w.enqueue(t, smallChats(1, tasks))
	w.start(t, fleet)
	w.awaitCompleted(t, tasks/4)
	killed := time.Now()
	w.workers[0].kill()
	w.workers[1].kill()
	w.awaitCompleted(t, tasks)
	f := w.finish(t)
	if f.tasks != tasks {
		t.Errorf("%d tasks have started, wanted %d", f.tasks, tasks)
	}
	ts := turnsOf(f.Report)
	dip := killed.Add(5 * time.Second) // all calls of killed processes have ended at the provider
	back := ts.full(dip)
	end := f.Times[last]
	before, after := ts.used(f.FirstStart.Add(time.Second), killed), ts.used(back, end)
	t.Logf("at most %d calls in flight; used %.2f %% in %.1f s with three workers, and %.2f %% in %.1f s with one",
		ts.most(), 100*before, killed.Sub(f.FirstStart).Seconds(), 100*after, end.Sub(back).Seconds())
	t.Logf("all slots used again after %.1f s", back.Sub(killed).Seconds())
	if most := ts.most(); most != slots {
		t.Errorf("%d calls were in flight at once, wanted %d", most, slots)
	}
	if back.IsZero() || back.Sub(killed) > 30*time.Second || end.Sub(back) < 5*time.Second {
		t.Errorf("killed at %v, all slots used again at %v, until %v", killed, back, end)
	}
	for _, share := range []float64{before, after} {
		if share < .97 {
			t.Errorf("%.2f %% of the slots were used, wanted 97 %%", 100*share)
		}
	}
}

// MongoDB is down for longer than leases last. Calls end before other tasks get their slots, and their tasks run
// again with no retry used.
//
//nolint:paralleltest // measures a limit: it has the machine for itself
func TestCallsInFlightStoreAway(t *testing.T) {
	longtest.Only(t, 120*time.Second)
	const tasks = 2 * slots
	s := callsInFlight("24s", "27s")
	s.cutMongo = true
	w := newWorld(t, s)
	w.enqueue(t, smallChats(1, tasks))
	w.start(t, fleet)
	w.awaitWorkers(t)
	await(t, "all slots are used", func() (bool, string) {
		n := w.report(t).InFlight
		return n == slots, describe(w.info(t))
	})
	w.mongoProxy.Cut()
	pass(t, 32*time.Second)
	if n := w.report(t).InFlight; n != 0 {
		t.Errorf("%d calls run although no lease can have been renewed", n)
	}
	w.mongoProxy.Restore()
	w.awaitCompleted(t, tasks)
	w.wantNoRetries(t)
	f := w.finish(t)
	if most := turnsOf(f.Report).most(); most != slots || f.tasks != tasks || f.repeated != slots {
		t.Errorf("%d calls at once, %d tasks, %d of them more than once", most, f.tasks, f.repeated)
	}
}

// mostIn returns the largest number of concurrent calls between two times.
func (ts turns) mostIn(from, to time.Time) (most int) {
	n := 0
	for i, t := range ts {
		n += t.by
		if t.at.Before(to) && (i+1 == len(ts) || ts[i+1].at.After(from)) {
			most = max(most, n)
		}
	}
	return most
}

// A running fleet follows a changed number of calls: fewer let none start until enough have ended, and more are used.
//
//nolint:paralleltest // measures a limit: it has the machine for itself
func TestCallsInFlightSet(t *testing.T) {
	longtest.Only(t, 100*time.Second)
	const tasks = 700
	s := callsInFlight("500ms", "2s")
	s.provider[0] = "-in-flight=30"
	w := newWorld(t, s)
	w.program = programPlain
	w.enqueue(t, smallChats(1, tasks))
	w.start(t, fleet)
	w.awaitCompleted(t, 20)
	type phase struct {
		calls    int
		from, to time.Time
	}
	var phases []phase
	for _, calls := range []int{6, 30, 1, slots} {
		command := []string{"limits", "set", "openai.in_flight", strconv.Itoa(calls)}
		if calls == slots {
			command = []string{"limits", "unset", "openai.in_flight"}
		}
		w.worker(t, command...)
		const longest = 2 * time.Second // a call that runs when the fleet follows ends within that
		from := time.Now().Add(followWithin + longest)
		pass(t, followWithin+longest+7*time.Second)
		phases = append(phases, phase{calls, from, time.Now()})
	}
	w.awaitCompleted(t, tasks)
	f := w.finish(t)
	ts := turnsOf(f.Report)
	for _, p := range phases {
		most, used := ts.mostIn(p.from, p.to), ts.used(p.from, p.to)*slots/float64(p.calls)
		t.Logf("%d calls set: at most %d at once, %.1f %% used", p.calls, most, 100*used)
		least := .9
		switch { // of few calls at once, the pause after each counts for more
		case p.calls == 1:
			least = .5
		case p.calls < slots:
			least = .8
		}
		if most != p.calls || used < least {
			t.Errorf("%d calls set: %d ran at once, %.1f %% of the slots were used", p.calls, most, 100*used)
		}
	}
	if f.tasks != tasks {
		t.Errorf("%d tasks have started, wanted %d", f.tasks, tasks)
	}
}
