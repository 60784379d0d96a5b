package reservations_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/headway-go/headway/reservations"
)

// withdrawal is what happens to a fleet whose tasks are withdrawn while they wait.
type withdrawal struct {
	*fleet

	at       float64
	tasks    func(i int) bool
	leaks    bool    // nobody gives the places back
	advances bool    // every two seconds the first in line is looked at, as by the waker on duty
	hasty    bool    // who is seen once to come too late is believed: for comparison
	next     float64 // look
	seen     float64 // when that one was due that was seen last to come too late
	gap      float64 // seconds that those who were withdrawn would have taken, less what the line was moved
}

// step withdraws, and moves the line on.
func (w *withdrawal) step() {
	if w.at > 0 && w.now >= w.at {
		w.at = 0
		w.withdraw()
	}
	if w.advances && w.now >= w.next && w.wake.len() > 0 {
		w.next = w.now + 2
		w.look()
	}
}

// look is what the waker on duty does: where the first in line is due too late, or others were withdrawn, the line is moved on.
func (w *withdrawal) look() {
	first := w.wake.first()
	most, step := min(1, w.gap), true
	if wait := (first.due - w.line()) / w.bucket.Speed; wait > 1+w.lasts(first.task) {
		step = false
		if most = w.gap; w.hasty || w.seen == first.due {
			most = math.Inf(1)
		}
		w.seen = first.due
	}
	if most <= 0 {
		return
	}
	before := w.bucket.Shift
	w.fleet.step(reservations.Request{
		Op: reservations.OpAdvance, Due: first.told, Generation: w.bucket.Generation, For: time.Duration(min(most, 1e6) * float64(time.Second)), Tokens: w.charge[first.task],
	})
	if moved := w.bucket.Shift - before; w.gap > 0 && moved > 0 {
		w.gap = max(0, w.gap-moved)
		if w.gap > 0 && step {
			w.next = w.now + .25
		}
	}
}

// lasts is how many seconds what a task takes needs to come back.
func (w *withdrawal) lasts(task int) float64 {
	lasts := 0.
	for k, m := range w.limit.Meters {
		lasts = max(lasts, w.charge[task][k]/m.RatePerSecond())
	}
	return lasts
}

func (w *withdrawal) withdraw() {
	stay := w.wake
	stay.items = nil
	for _, t := range w.wake.items {
		if !w.tasks(t.task) {
			stay.push(t)
			continue
		}
		w.gone++
		if !w.leaks {
			w.fleet.step(reservations.Request{Op: reservations.OpRelease, State: t.state, Tokens: w.charge[t.task]})
			w.gap += w.lasts(t.task)
		}
	}
	w.wake = stay
	var pending []waiting
	for _, t := range w.pending[w.taken:] {
		if !w.tasks(t.task) {
			pending = append(pending, t)
		} else {
			w.gone++
		}
	}
	w.pending = append(w.pending[:w.taken:w.taken], pending...)
}

// used is which share of the limit was used from the withdrawal until the last start, on what is left then.
func (w *withdrawal) used(from float64) float64 {
	last := 0.
	for _, s := range w.starts {
		last = max(last, s.at)
	}
	most := 0.
	for k, m := range w.limit.Meters {
		sum := 0.
		for _, s := range w.starts {
			if s.at > from {
				sum += w.cost(s.task, k)
			}
		}
		most = max(most, sum/m.RatePerSecond())
	}
	return most / (last - from)
}

// overtaken is how many places a task lost at most among those that were left, urgent ones aside.
func (w *withdrawal) overtaken() int {
	slices.SortStableFunc(w.starts, func(a, b moment) int { return cmp.Compare(a.at, b.at) })
	var order []int
	for _, s := range w.starts {
		if w.urgent == nil || !w.urgent[s.task] {
			order = append(order, s.task)
		}
	}
	behind, most := slices.Clone(order), 0
	slices.Sort(behind)
	place := map[int]int{}
	for i, task := range behind {
		place[task] = i
	}
	for i, task := range order {
		most = max(most, i-place[task])
	}
	return most
}

// Tasks are withdrawn while thousands wait: those behind them come sooner, in their order, so that the limit is used as before, and no window is above it. Nobody is delivered more often for it. Where
// the places were lost, and the buckets know of nothing, whole runs of them are made up for.
func TestFleetWithdrawn(t *testing.T) {
	t.Parallel()
	inf := math.Inf(1)
	which := map[string]func(i int) bool{
		"first":  func(i int) bool { return i < 1500 },
		"middle": func(i int) bool { return i >= 1000 && i < 2000 },
		"last":   func(i int) bool { return i >= 2000 },
		"half":   func(i int) bool { return i%2 == 0 },
		"most":   func(i int) bool { return i%10 < 7 },
	}
	limits := map[string]reservations.Limit{
		"plan":    limitOf(perSecond("requests", 20, 20, inf)),
		"burst":   limitOf(perSecond("requests", 20, 600, inf)),
		"tickets": limitOf(perSecond("requests", 20, 20, 200)),
		"two":     limitOf(perSecond("requests", 20, 20, inf), perSecond("tokens", 40, 400, inf)),
		"urgent":  limitOf(perSecond("requests", 20, 40, inf)),
		"refunds": limitOf(perSecond("requests", 40, 40, inf), perSecond("tokens", 60, 400, inf)),
	}
	limits["urgent"].Meters[0].Headroom = 10
	for name, tasks := range which {
		for limit, l := range limits {
			for _, leaks := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/leaks=%v", limit, name, leaks), func(t *testing.T) {
					t.Parallel()
					idle, _ := withdrawn(l, tasks, leaks, limit, false)
					used, w := withdrawn(l, tasks, leaks, limit, true)
					r := w.report()
					deliveries := r.deliveries * float64(w.fleet.tasks) / float64(w.fleet.tasks-w.gone)
					t.Logf("%s %s leaks %v: used %.2f %%, %.2f %% where nobody moves the line; %.3f deliveries a task, %d at most; fullest window %.4f, with hold %.4f; %d places lost",
						limit, name, leaks, 100*used, 100*idle, deliveries, r.most, r.win, r.held, w.overtaken())
					least, lost := .95, 10
					if limit == "tickets" {
						lost = 60 // to each other, while they have no time
					}
					if leaks {
						least = idle
					}
					if leaks && (name == "first" || name == "middle") {
						least = .88
					}
					if used < least-1e-9 || r.held > 1 || r.most > 5 || w.overtaken() > lost || r.done != w.fleet.tasks-w.gone {
						t.Errorf("used %v, %+v, %d places lost", used, r, w.overtaken())
					}
				})
			}
		}
	}
}

func withdrawn(l reservations.Limit, which func(i int) bool, leaks bool, kind string, advances bool) (float64, *withdrawal) {
	f := &fleet{tasks: 3000, limit: l, slots: 100, run: 1, deferring: .005, poll: .05, jitter: .005, seed: 7, tie: tieEarly}
	for i := range f.tasks {
		charge := []float64{1, float64(1 + i*7%5)}
		f.charge = append(f.charge, charge[:len(l.Meters)])
		if kind == "urgent" {
			f.urgent = append(f.urgent, i%10 == 9)
		}
		if kind == "refunds" {
			f.real = append(f.real, float64(2+i%7)/10)
		}
	}
	w := &withdrawal{fleet: f, at: 20, tasks: which, leaks: leaks, advances: advances}
	f.each = w.step
	f.simulate()
	return w.used(20), w
}

// A task above the capacity takes longer than anybody behind it can know: between its waking and its start the next one looks as if it came too late. A line that
// is moved up then costs all behind it a delivery, so who is looked at has to be seen twice.
func TestFleetIsNotMovedUpInVain(t *testing.T) {
	t.Parallel()
	run := func(advances, hasty bool) (fleetReport, time.Duration) {
		f := &fleet{tasks: 400, limit: limitOf(perSecond("tokens", 10, 20, math.Inf(1))), slots: 100, run: 1, deferring: .005, poll: .05, jitter: .005, seed: 7, tie: tieEarly}
		for i := range f.tasks {
			f.charge = append(f.charge, []float64{[]float64{1, 1, 1, 1, 1, 60, 1, 19, 1, 1}[i%10]})
		}
		w := &withdrawal{fleet: f, advances: advances, hasty: hasty}
		f.each = w.step
		f.simulate()
		return f.report(), time.Duration(f.bucket.Shift * float64(time.Second))
	}
	without, _ := run(false, false)
	with, moved := run(true, false)
	hasty, tooFar := run(true, true)
	t.Logf("%.3f deliveries a task, %.3f where nobody moves the line, %.3f where it is moved at once (by %v)", with.deliveries, without.deliveries, hasty.deliveries, tooFar)
	if with.deliveries > without.deliveries || moved > 0 || with.util < without.util-.001 {
		t.Errorf("moved by %v: %+v, without %+v", moved, with, without)
	}
	if hasty.deliveries < without.deliveries+.3 {
		t.Errorf("%v deliveries where the line is moved at once: it need not be seen twice any more", hasty.deliveries)
	}
}
