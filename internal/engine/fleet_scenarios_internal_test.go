package engine

import (
	"fmt"
	"math"

	"github.com/headway-go/headway/reservations"
)

// tokenMeter returns a meter, in tokens and seconds. An infinite maxReserved is unlimited, zero is none.
func tokenMeter(name string, rate, capacity, maxReserved float64) reservations.Meter {
	m := reservations.PerSecond(name, rate)
	switch m.Capacity = capacity; maxReserved {
	case 0:
		m.MaxReserved = reservations.NoReserved
	case math.Inf(1):
		m.MaxReserved = reservations.Unlimited
	default:
		m.MaxReserved = maxReserved
	}
	return m
}

func fleetLimit(meters ...reservations.Meter) []reservations.Limit {
	return []reservations.Limit{{Name: "fleet", Meters: meters}}
}

// hundred returns a limit of 100 a second with a capacity of 100.
func hundred(maxReserved float64) []reservations.Limit {
	return fleetLimit(tokenMeter("tokens", 100, 100, maxReserved))
}

// chatLimit returns a limit of 10 requests and 1000 tokens a second.
func chatLimit(maxRequests, maxTokens, capacity float64) []reservations.Limit {
	return fleetLimit(tokenMeter("requests", 10, capacity, maxRequests),
		tokenMeter("tokens", 1000, 100*capacity, maxTokens))
}

func windowMeter(rate, period float64) reservations.Meter {
	return reservations.Meter{
		Name: "window", Kind: reservations.KindWindow, Rate: rate, Period: seconds(period),
		MaxReserved: reservations.Unlimited,
	}
}

func every(gap float64) func(int) float64 { return func(i int) float64 { return float64(i) * gap } }

// fleetScenarios returns the scenarios of the reference simulation, in its order and with its random numbers.
func fleetScenarios() (all []fleet) {
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
	add := func(name string, f fleet) {
		f.name, f.seed = name, 1
		all = append(all, f)
	}
	for _, m := range []float64{inf, 1000, 200, 20, 0} {
		add("backlog max="+short(m), fleet{limits: hundred(m)})
	}
	add("capacity 10", fleet{limits: fleetLimit(tokenMeter("tokens", 100, 10, inf))})
	add("rate 1000", fleet{tasks: 40000, limits: fleetLimit(tokenMeter("tokens", 1000, 100, 5000))})
	add("4 a second", fleet{tasks: 400, limits: fleetLimit(tokenMeter("tokens", 4, 4, 40))})
	for _, m := range []float64{inf, 1000} {
		add("outage 60 s max="+short(m), fleet{limits: hundred(m), outage: [2]float64{20, 80}})
	}
	add("outage, arriving", fleet{limits: hundred(500), arrive: every(1 / 150.), outage: [2]float64{20, 40}})
	for _, a := range [][2]float64{{90, 500}, {110, 100}, {150, 500}, {150, 50}} {
		add(fmt.Sprintf("arriving %g/s max=%s", a[0], short(a[1])), fleet{limits: hundred(a[1]), arrive: every(1 / a[0])})
	}
	add("bursts", fleet{limits: hundred(300), arrive: func(i int) float64 { return float64(i/500) * 4 }})
	add("jitter 200 ms", fleet{limits: hundred(500), deliver: .2})
	add("mixed sizes", fleet{limits: hundred(500), charge: mixed})
	add("mixed sizes, small capacity", fleet{limits: fleetLimit(tokenMeter("tokens", 100, 20, 500)), charge: mixed})
	add("mixed sizes, outage", fleet{limits: hundred(1000), charge: mixed, outage: [2]float64{30, 60}})
	for _, m := range []float64{inf, 500, 100} {
		add("estimates 3x too high max="+short(m), fleet{limits: hundred(m), real: over})
	}
	add("mixed, too high", fleet{limits: hundred(2000), charge: mixed, real: over})
	add("too high, slow calls", fleet{limits: hundred(2000), charge: mixed, real: over, run: 5, slots: 4000})
	low := make([]float64, n)
	for i := range low {
		low[i] = 1.3
	}
	add("estimates too low", fleet{limits: hundred(500), real: low})
	add("429 for 10 s", fleet{limits: hundred(500), block: [2]float64{20, 30}})
	add("429 for 10 s, max=inf", fleet{limits: hundred(inf), block: [2]float64{20, 30}})
	for _, big := range []float64{.02, .1, .5} {
		add(fmt.Sprintf("rpm+tpm %.0f%% big", 100*big), fleet{limits: chatLimit(inf, inf, 10), charge: chat(big)})
	}
	add("rpm+tpm 10% bounded", fleet{limits: chatLimit(100, 10000, 10), charge: chat(.1)})
	add("rpm+tpm 10% too high", fleet{limits: chatLimit(inf, inf, 10), charge: chat(.1), real: over})
	add("rpm+tpm 50% too high", fleet{limits: chatLimit(200, 20000, 10), charge: chat(.5), real: over})
	add("rpm+tpm 50% too high, slow",
		fleet{limits: chatLimit(200, 20000, 60), charge: chat(.5), real: over, run: 5, slots: 2000})
	add("rpm+tpm 50% outage", fleet{limits: chatLimit(200, 20000, 10), charge: chat(.5), outage: [2]float64{30, 90}})
	for _, f := range chatDemo(r) {
		add(f.name, f)
	}
	add("few slots", fleet{limits: hundred(500), slots: 4, run: .001, deferring: .004})
	slow := fleet{limits: hundred(500), deliver: .05, gather: .1}
	add("slow wake-ups, stale answers", slow)
	slow.limits = fleetLimit(tokenMeter("tokens", 100, 10, 500))
	add("the same, capacity 10", slow)
	slow.limits, slow.real = hundred(500), over
	add("the same, too high", slow)
	add("dispatcher down 5 s", fleet{limits: hundred(500), crash: [2]float64{20, 25}})
	add("twice the rate after 20 s", fleet{limits: hundred(500), change: [2]float64{20, 2}})
	add("half the rate after 20 s", fleet{limits: hundred(500), change: [2]float64{20, .5}})
	add("window of 10 s", fleet{tasks: 3000, limits: fleetLimit(windowMeter(1000, 10))})
	add("window of 10 s and 150/s",
		fleet{tasks: 3000, limits: fleetLimit(windowMeter(1000, 10), tokenMeter("tokens", 150, 15, inf))})
	add("others take 20/s", fleet{limits: hundred(500), other: 20})
	add("20/s delivered unasked", fleet{limits: hundred(500), stray: 20})
	add("the same, too high, 429", fleet{limits: hundred(500), stray: 20, real: over, block: [2]float64{8, 12}})
	return append(all, sharingScenarios()...)
}

// sharingScenarios returns the scenarios with flows and urgent tasks.
func sharingScenarios() (all []fleet) {
	add := func(name string, f fleet) {
		f.name, f.seed = name, 1
		all = append(all, f)
	}
	two := fleet{limits: hundred(500), arrive: func(i int) float64 {
		if i < 7900 {
			return 0
		}
		return 10
	}}
	add("the same without flows", two)
	two.flow = func(i int) string {
		if i < 7900 {
			return "big"
		}
		return "small"
	}
	add("two tenants, 7900 and 100 later", two)
	add("10 tenants, one floods", fleet{
		limits: hundred(500),
		arrive: func(i int) float64 { return max(0, float64(i-4000)/80) },
		flow: func(i int) string {
			if i < 4000 {
				return "flood"
			}
			return fmt.Sprintf("t%d", i%9)
		},
	})
	for _, u := range []struct {
		name  string
		from  int
		every float64
	}{{"urgent 30 % beside a backlog", 6000, 30}, {"urgent 120 % beside a backlog", 2000, 120}} {
		m := tokenMeter("tokens", 100, 100, 500)
		m.Headroom = 30
		add(u.name, fleet{
			limits: fleetLimit(m),
			arrive: func(i int) float64 { return max(0, float64(i-u.from)/u.every) },
			urgent: func(i int) bool { return i >= u.from },
		})
	}
	return all
}

// chatDemo returns scenarios of 400 chat requests that finish in about 35 seconds.
func chatDemo(r *pythonRandom) (all []fleet) {
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
	for _, c := range []struct {
		name                        string
		rpm, tpm, capacity, learned float64
	}{
		{"tokens scarce", 40, sumUsed / 40, 5, 1},
		{"requests scarce", 10, sum / 30, 2, 1},
		{"both", 11, sumUsed / 36, 5, 1},
		{"both, learned", 11, sumUsed / 36, 5, .35},
	} {
		inf := math.Inf(1)
		f := fleet{
			name: "chat demo, " + c.name, tasks: n, run: .2, slots: 60,
			limits: fleetLimit(tokenMeter("requests", c.rpm, c.rpm, inf), tokenMeter("tokens", c.tpm, c.tpm*c.capacity, inf)),
		}
		for i := range n {
			f.charge = append(f.charge, []float64{1, tokens[i] * c.learned})
			f.real = append(f.real, used[i]/c.learned)
		}
		all = append(all, f)
	}
	return all
}

func short(x float64) string {
	if math.IsInf(x, 1) {
		return "inf"
	}
	return fmt.Sprintf("%g", x)
}
