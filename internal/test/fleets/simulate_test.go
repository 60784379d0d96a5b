package fleets_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/headway-go/headway/headwaytest"
	"github.com/headway-go/headway/internal/products/simulate"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
)

const (
	// near is how far apart a fleet and its simulation may be, in parts.
	near = .02
	// ahead is how early a fleet promotes a call, which no other call passes then, and one place at 10 calls a second. A
	// simulation leaves that out.
	ahead = 220 * time.Millisecond
)

// played are calls that a fleet makes, and a simulation of it.
type played struct {
	limit reservations.Limit
	lasts time.Duration // each call
	times []time.Duration
	calls []call
}

// backlog are calls that are there at the start.
func backlog(limit reservations.Limit, lasts time.Duration, count int, of func(n int) call) played {
	p := played{limit: limit, lasts: lasts}
	for n := range count {
		p.times, p.calls = append(p.times, 0), append(p.calls, of(n))
	}
	return p
}

// arrivals are calls that arrive at random times.
func arrivals(limit reservations.Limit, lasts time.Duration, count int, perSecond float64, of func(n int) call) played {
	p := backlog(limit, lasts, count, of)
	random, at := rand.New(rand.NewPCG(1, 3)), 0.
	for n := range p.times {
		at += random.ExpFloat64() / perSecond
		p.times[n] = time.Duration(at * float64(time.Second))
	}
	return p
}

// simulated are the moments at which calls start in a simulation, by their numbers.
func (p played) simulated(t *testing.T) (starts []time.Duration) {
	t.Helper()
	starts = make([]time.Duration, len(p.calls))
	calls := make([]simulate.Call, len(p.calls))
	for n, c := range p.calls {
		calls[n] = simulate.Call{At: p.times[n], Charges: c.Charges(), Latency: p.lasts}
		if c.Tokens > 0 {
			calls[n].Used = reservations.Tokens{"tokens": c.Used}
		}
	}
	config := simulate.Config{Observe: func(n int, at time.Duration) { starts[n] = at }}
	r, err := simulate.Run([]reservations.Limit{p.limit}, calls, config)
	if err != nil || r.Done != len(calls) {
		t.Fatalf("%d of %d calls simulated: %v", r.Done, len(calls), err)
	}
	return starts
}

// real are the moments at which calls start in a fleet.
func (p played) real(f *fleet) (starts []time.Duration) {
	f.t.Helper()
	f.start(size)
	f.Run(3 * time.Second)
	began := time.Now()
	of := func(n int) tasks.Args { return p.calls[n] }
	if p.times[len(p.times)-1] == 0 {
		f.Backlog(len(p.calls), of)
	} else {
		f.Replay(p.times, of)
		f.Run(p.times[len(p.times)-1] + time.Second)
	}
	f.end(len(p.calls))
	f.wantOnce()
	starts = make([]time.Duration, len(p.calls))
	for _, m := range f.made() {
		n, err := strconv.Atoi(m.task[1:])
		if err != nil {
			f.t.Fatal(err)
		}
		starts[n] = m.at.Sub(began)
	}
	return starts
}

// figures are what both are compared by.
type figures struct {
	last, p50, p90 time.Duration
	use            float64 // of the scarcest meter until the last start
}

// figures returns the figures of a flow, or of all calls.
func (p played) figures(flow string, starts []time.Duration) figures {
	var waits []time.Duration
	used := map[string]float64{}
	g := figures{last: slices.Max(starts)}
	for n, at := range starts {
		if flow != "" && p.calls[n].Flow != flow {
			continue
		}
		waits = append(waits, at-p.times[n])
		for meter, tokens := range p.calls[n].Charges()[0].Tokens {
			if meter == "tokens" && at+p.lasts < g.last {
				tokens = p.calls[n].Used
			}
			used[meter] += tokens
		}
	}
	slices.Sort(waits)
	g.p50, g.p90 = waits[len(waits)/2], waits[len(waits)*9/10]
	for _, m := range p.limit.Meters {
		if m.Kind == reservations.KindInFlight { // its use is the last start
			continue
		}
		g.use = max(g.use, used[m.Name]/(m.Cap()+m.Rate*g.last.Seconds()/m.Period.Seconds()))
	}
	return g
}

// judge fails if a fleet differs from its simulation.
func (g figures) judge(t *testing.T, flow string, fleet figures) {
	t.Helper()
	t.Logf("flow %q: simulated %v, the fleet %v", flow, g, fleet)
	differ := func(a, b time.Duration) bool {
		return (a - b).Abs() > max(ahead, time.Duration(near*float64(a)))
	}
	if differ(g.last, fleet.last) || differ(g.p50, fleet.p50) || differ(g.p90, fleet.p90) ||
		math.Abs(g.use-fleet.use) > near {
		t.Errorf("flow %q: simulated %v, the fleet %v", flow, g, fleet)
	}
}

func (g figures) String() string {
	return fmt.Sprintf("%.1f %% used, last start %v, waits p50 %v, p90 %v", 100*g.use, g.last.Round(time.Millisecond),
		g.p50.Round(time.Millisecond), g.p90.Round(time.Millisecond))
}

// A simulation says what a fleet does: when a backlog is done, how long calls and flows wait, how much of a limit is
// used.
func TestSimulationIsTrue(t *testing.T) {
	t.Parallel()
	chats := limit(perSecond(10, 10), reservations.Meter{Name: "tokens", Rate: 700, Period: time.Second, Capacity: 2000})
	shared := limit(perSecond(10, 5))
	shared.Weights = map[string]float64{"acme": 3}
	chat := func(n int) call {
		tokens := float64(60 + n*37%200)
		return call{N: n, Tokens: tokens, Used: tokens * float64(3+n%6) / 10}
	}
	flows := func(n int) call { return call{N: n, Flow: []string{"acme", "globex", "initech"}[n%3]} }
	for name, p := range map[string]played{
		"backlog":    backlog(requestsOnly, time.Second, 600, func(n int) call { return call{N: n} }),
		"two meters": arrivals(chats, 4*time.Second, 600, 8, chat),
		"too many":   arrivals(chats, 4*time.Second, 600, 14, chat),
		"flows":      backlog(shared, time.Second, 600, flows),
		"in flight": backlog(limit(reservations.InFlight(8)), 5*time.Second, 200, func(n int) call {
			return call{N: n, InFlight: true}
		}),
		"flows by time": arrivals(shared, time.Second, 600, 11, flows),
	} {
		t.Run(name, func(t *testing.T) {
			in(t, world{
				limits:   []reservations.Limit{p.limit},
				provider: headwaytest.Provider{Latency: headwaytest.Between(p.lasts, p.lasts)},
			}, func(f *fleet) {
				simulated, actual := p.simulated(t), p.real(f)
				flows := []string{""}
				if p.calls[0].Flow != "" {
					flows = append(flows, "acme", "globex", "initech")
				}
				for _, flow := range flows {
					p.figures(flow, simulated).judge(t, flow, p.figures(flow, actual))
				}
			})
		})
	}
}
