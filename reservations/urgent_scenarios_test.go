package reservations_test

import (
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/headway-go/headway/reservations"
)

// classScenario is a fleet with ordinary and urgent tasks under one limit.
type classScenario struct {
	name string
	fleet
	over [2]float64 // urgent tasks ask for more than there is from the first to the second
}

// classTask is one task of a classScenario, as the reference draws it.
type classTask struct {
	arrives float64
	urgent  bool
	charge  []float64
	real    float64
}

// poisson draws the moments of arrivals from one time to another.
func poisson(r *pythonRandom, rate, from, to float64) (moments []float64) {
	for t := from - math.Log(1-r.float())/rate; t < to; t -= math.Log(1-r.float()) / rate {
		moments = append(moments, t)
	}
	return moments
}

// draws are the ways in which a scenario draws its tasks; nil functions stand for one token, and for exact estimates.
type draws struct {
	charge func() []float64
	real   func() float64
}

func (d draws) tasks(urgent bool, arrivals []float64) []classTask {
	tasks := make([]classTask, len(arrivals))
	for i, at := range arrivals {
		tasks[i] = classTask{arrives: at, urgent: urgent, charge: []float64{1}, real: 1}
		if d.charge != nil {
			tasks[i].charge = d.charge()
		}
		if d.real != nil {
			tasks[i].real = d.real()
		}
	}
	return tasks
}

func (d draws) low(n int, gap float64) []classTask {
	arrivals := make([]float64, n)
	for i := range arrivals {
		arrivals[i] = float64(i) * gap
	}
	return d.tasks(false, arrivals)
}

// withHeadroom gives the meters of a limit their headrooms.
func withHeadroom(l reservations.Limit, headroom ...float64) reservations.Limit {
	l.Meters = slices.Clone(l.Meters)
	for k := range l.Meters {
		l.Meters[k].Headroom = headroom[k]
	}
	return l
}

func classFleet(f fleet, tasks ...[]classTask) fleet {
	all := slices.Concat(tasks...)
	sort.SliceStable(all, func(i, j int) bool { return all[i].arrives < all[j].arrives })
	for _, t := range all {
		f.charge, f.real, f.urgent = append(f.charge, t.charge), append(f.real, t.real), append(f.urgent, t.urgent)
	}
	f.tasks, f.seed, f.arrive = len(all), 1, func(i int) float64 { return all[i].arrives }
	if f.poll == 0 {
		f.poll = .05
	}
	return withDefaults(f)
}

func bursts(n, count int, gap float64) (moments []float64) {
	for j := range count {
		for range n {
			moments = append(moments, gap*float64(j)+.01)
		}
	}
	return moments
}

// classes collects scenarios, in the order and with the draws of the reference.
type classes struct {
	r   *pythonRandom
	all []classScenario
}

func (c *classes) add(name string, f fleet, over [2]float64, tasks ...[]classTask) {
	c.all = append(c.all, classScenario{name, classFleet(f, tasks...), over})
}

func classScenarios() []classScenario {
	c := &classes{r: newPythonRandom(5)}
	c.oneMeter()
	c.overload()
	c.trouble()
	c.twoMeters()
	c.headrooms()
	return c.all
}

var never [2]float64

func (c *classes) oneMeter() {
	inf, d := math.Inf(1), draws{}
	limit := func(m float64) reservations.Limit { return withHeadroom(one(m), 30) }
	high := func(rate, to float64) []classTask { return d.tasks(true, poisson(c.r, rate, 0, to)) }
	c.add("low alone", fleet{limit: limit(inf)}, never, d.low(10000, 0))
	c.add("low alone max=200", fleet{limit: limit(200)}, never, d.low(10000, 0))
	c.add("high alone 90%", fleet{limit: limit(inf)}, never, high(90, 100))
	c.add("high alone backlog", fleet{limit: limit(inf)}, never, d.tasks(true, make([]float64, 6000)))
	for _, h := range []float64{10, 30} {
		for _, m := range []float64{inf, 200} {
			c.add(fmt.Sprintf("poisson %g%% max=%s", h, short(m)), fleet{limit: limit(m)}, never, d.low(10000, 0), high(h, 120))
		}
	}
	c.add("bursts of 30, 20%", fleet{limit: limit(inf)}, never, d.low(10000, 0), d.tasks(true, bursts(30, 80, 1.5)))
	c.add("bursts of 30, max=200", fleet{limit: limit(200)}, never, d.low(10000, 0), d.tasks(true, bursts(30, 80, 1.5)))
	c.add("bursts of 60, R=30", fleet{limit: limit(inf)}, never, d.low(10000, 0), d.tasks(true, bursts(60, 40, 3)))
	c.add("cap 10 R 5", fleet{limit: withHeadroom(limitOf(perSecond("tokens", 100, 10, inf)), 5), poll: .02}, never, d.low(8000, 0), high(20, 80))
	c.add("4/s R 2", fleet{limit: withHeadroom(limitOf(perSecond("tokens", 4, 8, inf)), 2)}, never, d.low(400, 0), high(.8, 100))
	c.add("lows arriving 85%, high 30%", fleet{limit: limit(inf)}, never, d.low(10000, 1/85.), high(30, 110))
	c.add("lows arriving 60%, high 30%", fleet{limit: limit(inf)}, never, d.low(6000, 1/60.), high(30, 100))
}

func (c *classes) overload() {
	inf, d := math.Inf(1), draws{}
	limit := func(m float64) reservations.Limit { return withHeadroom(one(m), 30) }
	high := func(rate, from, to float64) []classTask { return d.tasks(true, poisson(c.r, rate, from, to)) }
	for _, m := range []float64{inf, 200} {
		c.add("overload 120% max="+short(m), fleet{limit: limit(m)}, [2]float64{20, 140}, d.low(10000, 0), high(120, 20, 140))
	}
	c.add("overload 300% 60 s", fleet{limit: limit(inf)}, [2]float64{20, 200}, d.low(6000, 0), high(300, 20, 80))
	c.add("overload 120%, lows arriving 20%", fleet{limit: limit(inf)}, [2]float64{20, 140}, d.low(4000, 1/20.), high(120, 20, 140))
	later := d.tasks(false, slices.Repeat([]float64{60}, 3000))
	c.add("high first, low comes later", fleet{limit: limit(inf)}, [2]float64{60, 120}, later, high(120, 0, 120))
}

func (c *classes) trouble() {
	inf, d := math.Inf(1), draws{}
	limit := func(m float64) reservations.Limit { return withHeadroom(one(m), 30) }
	high := func(rate, from, to float64) []float64 { return poisson(c.r, rate, from, to) }
	for _, m := range []float64{inf, 500} {
		c.add("outage 60 s max="+short(m), fleet{limit: limit(m), outage: [2]float64{20, 80}}, never, d.low(10000, 0), d.tasks(true, high(20, 0, 150)))
	}
	c.add("429 for 10 s", fleet{limit: limit(inf), block: [2]float64{20, 30}}, never, d.low(10000, 0), d.tasks(true, high(20, 0, 110)))
	c.add("429 in overload", fleet{limit: limit(inf), block: [2]float64{30, 40}}, [2]float64{45, 70}, d.low(6000, 0), d.tasks(true, high(120, 10, 60)))
	over := draws{real: func() float64 { return min(1, max(.05, c.r.betavariate(2, 5))) }}
	for _, m := range []float64{inf, 500} {
		c.add("3x too high max="+short(m), fleet{limit: limit(m)}, never, over.low(12000, 0), over.tasks(true, high(60, 0, 35)))
	}
	c.add("3x too high, high overload", fleet{limit: limit(inf)}, [2]float64{5, 35}, over.low(9000, 0), over.tasks(true, high(400, 5, 35)))
	c.add("3x too high, high alone backlog", fleet{limit: limit(inf)}, never, over.tasks(true, make([]float64, 9000)))
	low := draws{real: func() float64 { return 1.3 }}
	c.add("30% too low", fleet{limit: limit(inf)}, never, low.low(8000, 0), low.tasks(true, high(15, 0, 100)))
	c.add("mixed sizes", fleet{limit: withHeadroom(one(500), 40)}, never, c.mixed().low(4000, 0), c.mixed().tasks(true, high(6, 0, 120)))
	c.add("forget 5%", fleet{limit: limit(inf), forget: .05}, never, d.low(8000, 0), d.tasks(true, high(20, 0, 90)))
}

func (c *classes) mixed() draws {
	return draws{charge: func() []float64 { return []float64{min(40, max(1, c.r.lognormvariate(1, .8)))} }}
}

func (c *classes) twoMeters() {
	inf := math.Inf(1)
	limit := func(requests, tokens float64) reservations.Limit {
		return withHeadroom(chatLimit(requests, tokens, 30, 5000), 5, 1500)
	}
	chat := func(big float64) draws {
		return draws{charge: func() []float64 {
			if c.r.float() > big {
				return []float64{1, float64(c.r.randint(1, 30))}
			}
			return []float64{1, float64(c.r.randint(500, 1000))}
		}}
	}
	exactly := func(tokens float64) draws { return draws{charge: func() []float64 { return []float64{1, tokens} }} }
	over := func(d draws) draws {
		d.real = func() float64 { return min(1, max(.05, c.r.betavariate(2, 5))) }
		return d
	}
	high := func(d draws, rate, from, to float64) []classTask { return d.tasks(true, poisson(c.r, rate, from, to)) }
	for _, x := range [][2]float64{{.02, 2}, {.1, 2}, {.5, .5}} {
		c.add(fmt.Sprintf("2 meters %.0f%% big, high 20%%", 100*x[0]), fleet{limit: limit(inf, inf)}, never, chat(x[0]).low(4000, 0), high(chat(x[0]), x[1], 0, 350))
	}
	c.add("2 meters 10% bounded", fleet{limit: limit(100, 10000)}, never, chat(.1).low(4000, 0), high(chat(.1), 2, 0, 350))
	c.add("2 meters, high other mix", fleet{limit: limit(inf, inf)}, never, chat(.1).low(4000, 0), high(chat(0), 3, 0, 350), high(exactly(750), .4, 0, 350))
	c.add("2 meters, 50% too high", fleet{limit: limit(200, 20000)}, never, over(chat(.5)).low(3000, 0), high(over(chat(.5)), 1, 0, 300))
	c.add("2 meters, outage", fleet{limit: limit(inf, inf), outage: [2]float64{30, 90}}, never, chat(.1).low(3000, 0), high(chat(.1), 2, 0, 300))
	c.add("2 meters, overload 120%", fleet{limit: limit(inf, inf)}, [2]float64{20, 220}, chat(.1).low(3000, 0), high(chat(.1), 12, 20, 220))
	c.add("2 meters, overload, other mix", fleet{limit: limit(inf, inf)}, [2]float64{20, 220}, chat(.1).low(3000, 0), high(exactly(1), 8.8, 20, 220), high(exactly(900), 1, 20, 220))
	c.add("2 meters, high alone 120%", fleet{limit: limit(inf, inf)}, never, high(chat(.1), 12, 0, 200))
	c.add("2 meters, high alone 3x", fleet{limit: limit(inf, inf)}, never, high(over(chat(.5)), 3, 0, 200))
}

func (c *classes) headrooms() {
	inf, d := math.Inf(1), draws{}
	c.add("R=0 poisson 30%", fleet{limit: withHeadroom(one(inf), 1e-9)}, never, d.low(10000, 0), d.tasks(true, poisson(c.r, 30, 0, 120)))
	c.add("R=90 of 100, 30%", fleet{limit: withHeadroom(one(inf), 90)}, never, d.low(10000, 0), d.tasks(true, poisson(c.r, 30, 0, 120)))
	limit := withHeadroom(one(inf), 80)
	c.add("mixed, R=80, 30%", fleet{limit: limit}, never, c.mixed().low(4000, 0), c.mixed().tasks(true, poisson(c.r, 9, 0, 120)))
	c.add("mixed, R=80, overload", fleet{limit: limit}, [2]float64{0, 60}, c.mixed().low(2000, 0), c.mixed().tasks(true, poisson(c.r, 36, 0, 60)))
}
