package engine

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/longtest"
)

// randomFleet draws a fleet like the reference simulation.
func randomFleet(seed int) fleet {
	r := newPythonRandom(uint32(seed))
	n := choose(r, 300, 800, 1500)
	sizes := choose(r, [2]float64{1, 1}, [2]float64{1, 5}, [2]float64{1, 50})
	rates := make([]float64, choose(r, 1, 1, 2, 3))
	for k := range rates {
		rates[k] = choose(r, 2., 10, 100, 1000)
	}
	f := fleet{name: fmt.Sprintf("random fleet %d", seed), tasks: n, seed: uint64(seed)}
	inf := math.Inf(1)
	limit := fleetLimit()
	for k, q := range rates {
		capacity := q * choose(r, 1., 5, 60)
		most := choose(r, inf, inf, 0, q*.5, q*3, q*20, q*200)
		limit[0].Meters = append(limit[0].Meters, tokenMeter(fmt.Sprintf("m%d", k), q, capacity, most))
	}
	f.limits = limit
	for range n {
		var charge []float64
		for _, q := range rates {
			charge = append(charge, q*choose(r, .005, .01)*r.uniform(sizes[0], sizes[1])/sizes[1]*5)
		}
		f.charge = append(f.charge, charge)
	}
	if r.float() < .4 {
		for range n {
			f.real = append(f.real, r.uniform(.1, 1))
		}
	}
	none := [2]float64{}
	f.arrive = every(choose(r, 0, .01, .05, .1))
	f.slots = choose(r, 3, 20, 200)
	f.run = choose(r, .001, .05, 2)
	choose(r, .02, .1) // how often the dispatcher of the reference looks
	f.outage = choose(r, none, none, [2]float64{5, 8}, [2]float64{5, 60}, [2]float64{1, 3})
	f.crash = choose(r, none, none, [2]float64{4, 9})
	f.block = choose(r, none, none, [2]float64{3, 6}, [2]float64{10, 40})
	f.deliver = choose(r, 0, 0, .1)
	f.gather = choose(r, .01, .1)
	f.forget = choose(r, 0, 0, .05)
	return f
}

// In random fleets no window exceeds the limit, no task is left, and a task has at most 6 deliveries.
func TestRandomFleets(t *testing.T) {
	t.Parallel()
	rounds := 500
	if longtest.Short(t, 3*time.Minute) {
		rounds = 8
	}
	for seed := range rounds {
		f := randomFleet(seed)
		got := simulate(t, f)
		if got.done < f.tasks || got.win > 1.0005 || got.most > 6 {
			t.Errorf("%s: %v", f.name, got)
		}
	}
}
