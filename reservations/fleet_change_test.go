package reservations_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/longtest"
	"github.com/headway-go/headway/reservations"
)

// changes is a limit whose rate is multiplied by factors, one after the other, each time after so many seconds. Only says which meter, from 1; zero for all.
func changes(l reservations.Limit, after float64, scaled bool, only int, factors ...float64) []changed {
	var all []changed
	for i, factor := range factors {
		l.Meters = slices.Clone(l.Meters)
		for k := range l.Meters {
			m := &l.Meters[k]
			m.Rate *= factor
			m.Capacity *= factor
			if only > 0 && k != only-1 {
				m.Rate, m.Capacity = m.Rate/factor, m.Capacity/factor
			}
			if scaled && m.MaxReserved != reservations.Unlimited {
				m.MaxReserved *= factor
			}
		}
		all = append(all, changed{at: after * float64(i+1), limit: l})
	}
	return all
}

// inForce says what limit holds at a moment: the meter k of it.
func inForce(first reservations.Limit, all []changed, at float64, k int) reservations.Meter {
	l := first
	for _, c := range all {
		if c.at <= at {
			l = c.limit
		}
	}
	return l.Meters[k]
}

// came is what the rates in force bring between two moments.
func came(first reservations.Limit, all []changed, from, to float64, k int) float64 {
	sum := 0.
	for i := range len(all) + 1 {
		begins, ends := 0., math.Inf(1)
		if i > 0 {
			begins = all[i-1].at
		}
		if i < len(all) {
			ends = all[i].at
		}
		if length := min(to, ends) - max(from, begins); length > 0 {
			sum += length * inForce(first, all, begins, k).RatePerSecond()
		}
	}
	return sum
}

// Thousands wait while the rate is changed, up and down, twice: no window is above what the rates in force allowed, a raised limit is used at
// once, nobody is delivered more often, and the order is kept. Where the plan is bounded, its horizon changes with the rate: a ticket that was told
// its time before comes too early or too late for the new one, which may cost a delivery at each change, and places among tickets.
func TestFleetChange(t *testing.T) {
	longtest.Only(t, 60*time.Second)
	t.Parallel()
	inf := math.Inf(1)
	big := func(n int) [][]float64 { // requests and tokens, tokens scarce
		var c [][]float64
		for i := range n {
			c = append(c, []float64{1, float64(50 + 37*i%100)})
		}
		return c
	}
	scarce := limitOf(perSecond("requests", 50, 50, inf), perSecond("tokens", 1000, 1000, inf)) // 10 tasks a second
	for _, c := range []struct {
		name    string
		fleet   fleet
		scaled  bool
		factors []float64
		most    int
		lost    float64 // places, in %
		only    int
	}{
		{"up and down, unlimited", fleet{tasks: 14000, limit: one(inf)}, false, []float64{10, .1, 10, .1}, 2, 1, 0},
		{"up and down, max=1000", fleet{tasks: 14000, limit: one(1000)}, false, []float64{10, .1, 10, .1}, 7, 3, 0},
		{"up and down, max=1000 scaled", fleet{tasks: 14000, limit: one(1000)}, true, []float64{10, .1, 10, .1}, 3, 1, 0},
		{"up and down, max=0", fleet{tasks: 14000, limit: one(0)}, false, []float64{10, .1, 10, .1}, 3, 1, 0},
		{"down and up, unlimited", fleet{tasks: 4000, limit: one(inf)}, false, []float64{.1, 10, .1, 10}, 3, 1, 0},
		{"down and up, max=1000", fleet{tasks: 4000, limit: one(1000)}, false, []float64{.1, 10, .1, 10}, 3, 1, 0},
		{"down and up, max=1000 scaled", fleet{tasks: 4000, limit: one(1000)}, true, []float64{.1, 10, .1, 10}, 5, 25, 0},
		{"up and down, two meters", fleet{tasks: 1400, limit: chatLimit(inf, inf, 10, 1000), charge: big(1400)}, false, []float64{10, .1, 10, .1}, 3, 1, 0},
		{"up and down, two meters bounded", fleet{tasks: 1400, limit: chatLimit(100, 10000, 10, 1000), charge: big(1400)}, false, []float64{10, .1, 10, .1}, 6, 3, 0},
		{"up and down, the scarce one of two meters", fleet{tasks: 2000, limit: scarce, charge: big(2000)}, false, []float64{4, .25, 4, .25}, 3, 1, 2},
		{"down and up, the scarce one of two meters", fleet{tasks: 400, limit: scarce, charge: big(400)}, false, []float64{.1, 10, .1, 10}, 3, 1, 2},
		{"down and up, the other one of two meters", fleet{tasks: 600, limit: scarce, charge: big(600)}, false, []float64{.5, 2, .5, 2}, 3, 1, 1},
		{"down and up, the other one, which becomes scarce", fleet{tasks: 600, limit: scarce, charge: big(600)}, false, []float64{.1, 10, .1, 10}, 4, 2, 1},
		{"up and down, blocked meanwhile", fleet{tasks: 14000, limit: one(inf), block: [2]float64{8, 13}}, false, []float64{10, .1, 10, .1}, 3, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := withDefaults(c.fleet)
			f.seed, f.poll, f.slots = 1, .02, 2000
			first, all, blocked := f.limit, changes(f.limit, 10, c.scaled, c.only, c.factors...), f.block
			f.changes = all
			f.simulate()
			f.limit = first
			r := f.report()
			// What the fullest meter could have served until the last start.
			last := 0.
			for _, s := range f.starts {
				last = max(last, s.at)
			}
			r.util = f.share(first, all, blocked, last)
			r.win, r.held = f.fullest(first, all)
			t.Logf("%s: %.1f s %+v", c.name, last, r)
			if r.done != f.tasks || r.early > 0 {
				t.Errorf("%d of %d tasks started, %d during a block", r.done, f.tasks, r.early)
			}
			if r.held > 1+1e-9 {
				t.Errorf("fullest window is %.4f of what was allowed (%.4f with hold)", r.win, r.held)
			}
			least := .97
			if c.name == "down and up, the other one, which becomes scarce" { // until then its bucket was full
				least = .93
			}
			if r.util < least || r.most > c.most || r.lost > c.lost {
				t.Errorf("%.4f of the limit was used, most deliveries %d, places lost %.2f %%", r.util, r.most, r.lost)
			}
		})
	}
}

// share is how much started of what the scarcest meter allowed at any time until the last start.
func (f *fleet) share(first reservations.Limit, all []changed, blocked [2]float64, last float64) float64 {
	mean := make([]float64, len(first.Meters))
	for i := range f.tasks {
		for k := range mean {
			mean[k] += f.cost(i, k) / float64(f.tasks)
		}
	}
	least := func(of func(k int) float64) float64 {
		x := math.Inf(1)
		for k := range mean {
			x = min(x, of(k)/mean[k])
		}
		return x
	}
	const step = .01
	tasks := least(func(k int) float64 { return first.Meters[k].Cap() })
	for at := 0.; at < last; at += step {
		if at < blocked[0] || at >= blocked[1] {
			tasks += step * least(func(k int) float64 { return inForce(first, all, at, k).RatePerSecond() })
		}
	}
	return float64(f.tasks) / tasks
}

func (f *fleet) largest(k int) float64 {
	largest := 0.
	for _, c := range f.charge {
		largest = max(largest, c[k])
	}
	return largest
}

// fullest is the fullest window of 1, 10 or 60 s of any meter, as a share of what the rates in force allowed, and as a share of that with Hold.
func (f *fleet) fullest(first reservations.Limit, all []changed) (share, held float64) {
	for k := range first.Meters {
		starts := slices.Clone(f.starts)
		slices.SortFunc(starts, func(a, b moment) int { return int(math.Copysign(1, a.at-b.at)) })
		for _, window := range []float64{1, 10, 60} {
			from, sum := 0, 0.
			for _, s := range starts {
				sum += f.charge[s.task][k]
				for ; s.at-starts[from].at > window; from++ {
					sum -= f.charge[starts[from].task][k]
				}
				begin := starts[from].at
				m := inForce(first, all, begin, k)
				largest := m
				for at := begin; at <= s.at; at++ { // the highest rate within Hold of the window, once
					if l := inForce(first, all, at, k); l.Rate > largest.Rate {
						largest = l
					}
				}
				if l := inForce(first, all, s.at, k); l.Rate > largest.Rate {
					largest = l
				}
				allowed := max(m.Cap(), f.largest(k)) + came(first, all, begin, s.at, k)
				share = max(share, sum/allowed)
				held = max(held, sum/(allowed+largest.RatePerSecond()*reservations.Hold.Seconds()))
			}
		}
	}
	return share, held
}
