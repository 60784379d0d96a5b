package reservations_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/headway-go/headway/reservations"
)

// Random fleets with outages, 429s, wrong estimates, forgotten places and up to three meters, the same as the reference draws: no
// window above the promise, no start during a block, nobody left over, nobody delivered more than 12 times.
func TestFleetRandom(t *testing.T) {
	t.Parallel()
	const fleets, groups = 500, 10 // groups run in parallel
	for g := range groups {
		t.Run(fmt.Sprintf("seeds %d..%d", g*fleets/groups, (g+1)*fleets/groups-1), func(t *testing.T) {
			t.Parallel()
			for seed := g * fleets / groups; seed < (g+1)*fleets/groups; seed++ {
				f := randomFleet(uint32(seed))
				f.simulate()
				r := f.report()
				if r.done < f.tasks || r.early > 0 || r.most > 12 || r.win > 1.0005 || r.held > 1+1e-9 {
					t.Errorf("seed %d: %d tasks, %+v", seed, f.tasks, r)
				}
			}
		})
	}
}

// randomFleet draws what fuzz() of the reference draws for a seed.
func randomFleet(seed uint32) fleet {
	r := newPythonRandom(seed)
	inf := math.Inf(1)
	f := fleet{seed: seed, tasks: choose(r, 300, 800, 1500)}
	largest := choose(r, 1., 5, 50)
	rates := make([]float64, choose(r, 1, 1, 2, 3))
	for k := range rates {
		rates[k] = choose(r, 2., 10, 100, 1000)
	}
	var meters []reservations.Meter
	for k, q := range rates {
		capacity := q * choose(r, 1., 5, 60)
		meters = append(meters, perSecond(fmt.Sprintf("m%d", k), q, capacity, choose(r, inf, inf, 0, q*.5, q*3, q*20, q*200)))
	}
	f.limit = limitOf(meters...)
	for range f.tasks {
		charge := slices.Clone(rates)
		for k := range charge {
			charge[k] *= choose(r, .005, .01) * r.uniform(1, largest) / largest * 5
		}
		f.charge = append(f.charge, charge)
	}
	if r.float() < .4 {
		for range f.tasks {
			f.real = append(f.real, r.uniform(.1, 1))
		}
	}
	f.arrive = every(choose(r, 0., .01, .05, .1))
	f.slots = choose(r, 3, 20, 200)
	f.run = choose(r, .001, .05, 2)
	f.poll = choose(r, .02, .1)
	f.outage = choose(r, [2]float64{}, [2]float64{}, [2]float64{5, 8}, [2]float64{5, 60}, [2]float64{1, 3})
	f.block = choose(r, [2]float64{}, [2]float64{}, [2]float64{3, 6}, [2]float64{10, 40})
	f.jitter = choose(r, 0., 0, .1)
	f.forget = choose(r, 0., 0, .05)
	return withDefaults(f)
}
