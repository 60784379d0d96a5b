package engine

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/longtest"
	"github.com/headway-go/headway/reservations"
)

// sharing is a fleet whose flows share one limit of 1000 tokens a second.
type sharing struct {
	fleet

	weights, priorities map[string]float64
	charge              []reservations.Charge // of each task
	arrives             []float64
}

// add adds n tasks of a flow that arrive at a time, with sizes from least to most.
func (s *sharing) add(flow, priority string, n int, at, least, most float64) {
	r := rand.New(rand.NewPCG(uint64(len(s.charge)), 3))
	for range n {
		tokens := reservations.Tokens{"tokens": least + r.Float64()*(most-least)}
		s.charge = append(s.charge, reservations.Charge{Limit: "fleet", Tokens: tokens, Flow: flow, Priority: priority})
		s.arrives = append(s.arrives, at)
	}
}

// run simulates the fleet. Tasks that arrive at the same time have a random order.
func (s *sharing) run(t *testing.T) fleetReport {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	r.Shuffle(len(s.charge), func(i, j int) {
		s.charge[i], s.charge[j] = s.charge[j], s.charge[i]
		s.arrives[i], s.arrives[j] = s.arrives[j], s.arrives[i]
	})
	limits := fleetLimit(tokenMeter("tokens", 1000, 100, 5000))
	limits[0].Weights, limits[0].Priorities = s.weights, s.priorities
	f := s.fleet
	f.tasks, f.limits, f.processes, f.seed, f.redis, f.store = len(s.charge), limits, 3, 1, .001, .002
	f.charges = func(task int) []reservations.Charge { return []reservations.Charge{s.charge[task]} }
	f.arrive = func(task int) float64 { return s.arrives[task] }
	got := simulate(t, f)
	t.Log(got)
	if got.done < f.tasks || got.win > 1.0005 || got.took > got.best/.99+f.block[1]-f.block[0] {
		t.Errorf("all %d tasks have to be done, within the limit, and the limit used: %v", f.tasks, got)
	}
	return got
}

// check judges every window of 10 s between two times: each group gets its share of the tokens, within 5 %.
func (s *sharing) check(
	t *testing.T, got fleetReport, from, to float64, shares map[string]float64, group func(reservations.Charge) string,
) {
	t.Helper()
	const length = 10 * time.Second
	all := 0.
	for _, share := range shares {
		all += share
	}
	worst, windows := 0., 0
	sums, last := map[string]float64{}, 0
	for first, start := range got.starts {
		if start.at < seconds(from) {
			last = first + 1
			continue
		}
		for ; last < len(got.starts) && got.starts[last].at < start.at+length; last++ {
			sums[group(s.charge[got.starts[last].task])] += s.charge[got.starts[last].task].Tokens["tokens"]
		}
		if start.at+length > seconds(to) {
			break
		}
		windows++
		total := 0.
		for _, n := range sums {
			total += n
		}
		for name, share := range shares {
			worst = max(worst, sums[name]/(total*share/all)-1, 1-sums[name]/(total*share/all))
		}
		sums[group(s.charge[start.task])] -= s.charge[start.task].Tokens["tokens"]
	}
	t.Logf("%.0f s to %.0f s: %d windows of 10 s, at most %.1f %% from %v", from, to, windows, 100*worst, shares)
	if windows == 0 || worst > .05 {
		t.Errorf("%.1f %% from its share in one of %d windows, want at most 5 %%", 100*worst, windows)
	}
}

func flowOf(c reservations.Charge) string     { return c.Flow }
func priorityOf(c reservations.Charge) string { return c.Priority }

// Three flows have weights 3:2:1 and task sizes that differ by a factor of 50. Each gets its share within 5 % in any
// 10 s. One flow pauses after 30 s: the others use its share at once, and it gets the share back later.
func TestFlowsShareByWeight(t *testing.T) {
	t.Parallel()
	all := [][3][2]float64{
		{{1, 50}, {1, 50}, {1, 50}}, {{1, 1}, {50, 50}, {1, 50}}, {{50, 50}, {1, 1}, {50, 50}}, {{25, 25}, {50, 50}, {1, 1}},
	}
	if longtest.Short(t, 20*time.Second) {
		all = all[:1]
	}
	for _, sizes := range all {
		t.Run(fmt.Sprint(sizes), func(t *testing.T) {
			t.Parallel()
			s := sharing{weights: map[string]float64{"large": 3, "middle": 2}}
			tokens := func(i int, flow string, tokens, at float64) {
				mean := (sizes[i][0] + sizes[i][1]) / 2
				s.add(flow, "", int(tokens/mean), at, sizes[i][0], sizes[i][1])
			}
			tokens(0, "large", 37500, 0)
			tokens(1, "middle", 10000, 0)
			tokens(1, "middle", 6666, 50)
			tokens(2, "small", 12500, 0)
			got := s.run(t)
			s.check(t, got, 1, 29, map[string]float64{"large": 3, "middle": 2, "small": 1}, flowOf)
			s.check(t, got, 31, 50, map[string]float64{"large": 3, "small": 1}, flowOf)
			s.check(t, got, 51, 64, map[string]float64{"large": 3, "middle": 2, "small": 1}, flowOf)
		})
	}
}

// Priorities keep their shares however many flows each has, even if workers are killed and a provider refuses calls.
// The flows of a priority share its part.
func TestPrioritiesShareWhateverTheirFlows(t *testing.T) {
	t.Parallel()
	all := map[string]fleet{
		"quiet": {}, "all workers killed": {kill: []float64{15}}, "429 for 5 s": {block: [2]float64{15, 20}},
	}
	if longtest.Short(t, 20*time.Second) {
		all = map[string]fleet{"all workers killed": all["all workers killed"]}
	}
	for name, f := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := sharing{fleet: f, priorities: map[string]float64{"interactive": 6, "batch": 3, "idle": 1}}
			for i := range 20 {
				s.add(fmt.Sprintf("batch%d", i), "batch", 90, 0, 1, 20)
			}
			for i := range 3 {
				s.add(fmt.Sprintf("idle%d", i), "idle", 200, 0, 1, 20)
			}
			s.add("", "interactive", 3600, 0, 1, 20)
			got := s.run(t)
			from := 1.
			if len(f.kill)+int(f.block[1]) > 0 {
				from = 21
			}
			s.check(t, got, from, 55, s.priorities, priorityOf)
			most, least := 0., 1e9
			for _, n := range s.until(got, 50) {
				most, least = max(most, n), min(least, n)
			}
			if most-least > 60 {
				t.Errorf("the flows of a priority have %.0f to %.0f tokens, want about the same", least, most)
			}
		})
	}
}

// until returns the tokens of each batch flow that started until a time.
func (s *sharing) until(got fleetReport, at float64) []float64 {
	flows := map[string]float64{}
	for _, start := range got.starts {
		if c := s.charge[start.task]; c.Priority == "batch" && start.at < seconds(at) {
			flows[c.Flow] += c.Tokens["tokens"]
		}
	}
	return slices.Collect(maps.Values(flows))
}
