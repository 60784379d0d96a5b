package reservations_test

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/headway-go/headway/reservations"
)

type scenario struct {
	name string
	fleet
}

// perSecond is a meter with everything in tokens; infinity is an unlimited plan.
func perSecond(name string, rate, capacity, maxReserved float64) reservations.Meter {
	return reservations.Meter{Name: name, Rate: rate, Period: time.Second, Capacity: capacity, MaxReserved: min(maxReserved, reservations.Unlimited)}
}

func limitOf(meters ...reservations.Meter) reservations.Limit {
	return reservations.Limit{Name: "fleet", Meters: meters}
}

// one is a limit of 100 a second with a capacity of 100.
func one(maxReserved float64) reservations.Limit {
	return limitOf(perSecond("tokens", 100, 100, maxReserved))
}

// chatLimit is 10 requests and 1000 tokens a second.
func chatLimit(maxRequests, maxTokens, requestsCapacity, tokensCapacity float64) reservations.Limit {
	return limitOf(perSecond("requests", 10, requestsCapacity, maxRequests), perSecond("tokens", 1000, tokensCapacity, maxTokens))
}

func every(gap float64) func(int) float64 { return func(i int) float64 { return float64(i) * gap } }

// scenarios are those of the reference simulation, in its order and with its draws.
func scenarios() []scenario {
	const n = 8000
	inf := math.Inf(1)
	r := newPythonRandom(3)
	mixed, over := make([][]float64, n), make([]float64, n)
	for i := range mixed {
		mixed[i] = []float64{min(80, max(1, r.lognormvariate(1, .8)))}
	}
	for i := range over {
		over[i] = min(1, max(.05, r.betavariate(2, 5)))
	}
	chat := func(big float64) [][]float64 {
		charge := make([][]float64, n)
		for i := range charge {
			if r.float() > big {
				charge[i] = []float64{1, float64(r.randint(1, 30))}
			} else {
				charge[i] = []float64{1, float64(r.randint(500, 1000))}
			}
		}
		return charge
	}
	var s []scenario
	add := func(name string, f fleet) {
		f.seed = 1
		s = append(s, scenario{name, withDefaults(f)})
	}
	for _, m := range []float64{inf, 1000, 200, 20, 0} {
		add("backlog max="+short(m), fleet{limit: one(m)})
	}
	add("capacity 10", fleet{limit: limitOf(perSecond("tokens", 100, 10, inf)), poll: .02})
	add("rate 1000", fleet{tasks: 40000, limit: limitOf(perSecond("tokens", 1000, 100, 5000)), poll: .02})
	add("4 a second", fleet{tasks: 400, limit: limitOf(perSecond("tokens", 4, 4, 40))})
	for _, m := range []float64{inf, 1000} {
		add("outage 60 s max="+short(m), fleet{limit: one(m), outage: [2]float64{20, 80}})
	}
	add("outage 60 s, classic", fleet{limit: one(inf), outage: [2]float64{20, 80}, classic: true})
	add("outage, arriving", fleet{limit: one(500), arrive: every(1 / 150.), outage: [2]float64{20, 40}})
	for _, a := range [][2]float64{{90, 500}, {110, 100}, {150, 500}, {150, 50}} {
		add(fmt.Sprintf("arriving %g/s max=%s", a[0], short(a[1])), fleet{limit: one(a[1]), arrive: every(1 / a[0])})
	}
	add("bursts", fleet{limit: one(300), arrive: func(i int) float64 { return float64(i/500) * 4 }})
	add("jitter 200 ms", fleet{limit: one(500), jitter: .2})
	add("mixed sizes", fleet{limit: one(500), charge: mixed})
	add("mixed sizes, small capacity", fleet{limit: limitOf(perSecond("tokens", 100, 20, 500)), charge: mixed})
	add("mixed sizes, outage", fleet{limit: one(1000), charge: mixed, outage: [2]float64{30, 60}})
	for _, m := range []float64{inf, 500, 100} {
		add("estimates 3x too high max="+short(m), fleet{limit: one(m), real: over})
	}
	add("mixed, too high", fleet{limit: one(2000), charge: mixed, real: over})
	add("too high, slow calls", fleet{limit: one(2000), charge: mixed, real: over, run: 5, slots: 4000})
	low := make([]float64, n)
	for i := range low {
		low[i] = 1.3
	}
	add("estimates too low", fleet{limit: one(500), real: low})
	add("429 for 10 s", fleet{limit: one(500), block: [2]float64{20, 30}})
	add("429 for 10 s, max=inf", fleet{limit: one(inf), block: [2]float64{20, 30}})
	for _, big := range []float64{.02, .1, .5} {
		add(fmt.Sprintf("rpm+tpm %.0f%% big", 100*big), fleet{limit: chatLimit(inf, inf, 10, 1000), charge: chat(big), poll: .02})
	}
	add("rpm+tpm 10% bounded", fleet{limit: chatLimit(100, 10000, 10, 1000), charge: chat(.1), poll: .02})
	// The reference, too, delivers a task 5 times here when ties are woken early.
	add("rpm+tpm 10% too high", fleet{limit: chatLimit(inf, inf, 10, 1000), charge: chat(.1), real: over, poll: .02, tie: tieLate})
	add("rpm+tpm 50% too high", fleet{limit: chatLimit(200, 20000, 10, 1000), charge: chat(.5), real: over, poll: .02})
	add("rpm+tpm 50% too high, slow", fleet{limit: chatLimit(200, 20000, 60, 6000), charge: chat(.5), real: over, poll: .02, run: 5, slots: 2000})
	add("rpm+tpm 50% outage", fleet{limit: chatLimit(200, 20000, 10, 1000), charge: chat(.5), outage: [2]float64{30, 90}, poll: .02})
	for _, d := range chatDemo(r) {
		add(d.name, d.fleet)
	}
	add("few slots", fleet{limit: one(500), slots: 4, run: .001, deferring: .004})
	return s
}

// chatDemo are 400 chat requests that finish in some 35 seconds.
func chatDemo(r *pythonRandom) []scenario {
	const n = 400
	var tokens, used [n]float64
	var sum, sumUsed float64
	for i := range tokens {
		tokens[i] = r.lognormvariate(6.2, .6) + 400
		sum += tokens[i]
	}
	for i := range used {
		used[i] = r.uniform(.2, .5)
		sumUsed += tokens[i] * used[i]
	}
	var s []scenario
	for _, c := range []struct {
		name                        string
		rpm, tpm, capacity, learned float64
	}{
		{"tokens scarce", 40, sumUsed / 40, 5, 1},
		{"requests scarce", 10, sum / 30, 2, 1},
		{"both", 11, sumUsed / 36, 5, 1},
		{"both, learned", 11, sumUsed / 36, 5, .35},
	} {
		f := fleet{
			tasks: n, run: .2, slots: 60, poll: .02,
			limit: limitOf(perSecond("requests", c.rpm, c.rpm, math.Inf(1)), perSecond("tokens", c.tpm, c.tpm*c.capacity, math.Inf(1))),
		}
		for i := range n {
			f.charge = append(f.charge, []float64{1, tokens[i] * c.learned})
			f.real = append(f.real, used[i]/c.learned)
		}
		s = append(s, scenario{"chat demo, " + c.name, f})
	}
	return s
}

func withDefaults(f fleet) fleet {
	defaults := func(x *float64, value float64) {
		if *x == 0 {
			*x = value
		}
	}
	if f.tasks == 0 {
		f.tasks = 8000
	}
	if f.slots == 0 {
		f.slots = 200
	}
	defaults(&f.run, .05)
	defaults(&f.deferring, .002)
	defaults(&f.poll, .1)
	defaults(&f.tie, tieEarly)
	return f
}

func short(x float64) string {
	if math.IsInf(x, 1) {
		return "inf"
	}
	return fmt.Sprintf("%g", x)
}

// referenceResults reads what the reference simulation printed, by scenario.
func referenceResults(t *testing.T) map[string]fleetReport {
	t.Helper()
	file, err := os.Open("testdata/results.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	results := map[string]fleetReport{}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		name, figures, _ := strings.Cut(lines.Text(), "{")
		var r fleetReport
		var took, best float64
		_, err := fmt.Sscanf(figures, "'done': %d, 'took': %f, 'best': %f, 'util': %f, 'deliveries': %f, 'most': %d, 'win': %f, 'lost': %f}",
			&r.done, &took, &best, &r.util, &r.deliveries, &r.most, &r.win, &r.lost)
		if err != nil {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
		results[strings.TrimSpace(name)] = r
	}
	return results
}

// Every scenario of the reference simulation must do at least as well here. The figures there are rounded.
func TestFleetScenarios(t *testing.T) {
	t.Parallel()
	reference := referenceResults(t)
	all := scenarios()
	if len(all) != len(reference) {
		t.Fatalf("%d scenarios, the reference has %d", len(all), len(reference))
	}
	for _, s := range all {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			want, ok := reference[s.name]
			if !ok {
				t.Fatal("not in testdata/results.txt")
			}
			f := s.fleet
			f.simulate()
			got := f.report()
			t.Logf("\n got %+v\nwant %+v", got, want)
			if got.done != f.tasks {
				t.Errorf("%d of %d tasks started", got.done, f.tasks)
			}
			if got.early > 0 {
				t.Errorf("%d tasks started during the block", got.early)
			}
			if got.util < want.util-.001 {
				t.Errorf("share of the limit is %.4f, want at least %.3f", got.util, want.util)
			}
			if got.deliveries > want.deliveries+.005 || got.most > want.most {
				t.Errorf("deliveries are %.3f (most %d), want at most %.2f (%d)", got.deliveries, got.most, want.deliveries, want.most)
			}
			if got.lost > want.lost+.01 {
				t.Errorf("places lost are %.3f %%, want at most %.2f", got.lost, want.lost)
			}
			if f.classic {
				if got.win < 20 {
					t.Errorf("fullest window is %.3f of what is allowed: the classic design should break the limit by far", got.win)
				}
				return
			}
			if got.win > max(1, want.win)+.001 || got.held > 1+1e-9 {
				t.Errorf("fullest window is %.4f of what is allowed (%.4f with hold), want at most %.3f", got.win, got.held, max(1, want.win))
			}
		})
	}
}
