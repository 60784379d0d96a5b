package fleets_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/headway-go/headway/headwaytest"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
)

// scenario is a fleet of three workers, and the bounds of its result.
type scenario struct {
	name    string
	meters  []reservations.Meter
	tasks   int                   // zero means 400
	sizes   func(n int) []float64 // by meter; nil means one each
	used    float64               // the part of a charge that a call uses; zero means all
	arrives func(n int) float64   // seconds; nil means a backlog
	charge  func(n int, c *reservations.Charge)
	latency time.Duration
	plan    func(f *headwaytest.Fleet, api *headwaytest.API)

	late       float64 // seconds that the last start may be later than the least possible; zero means 1
	deliveries float64 // a task; zero means 2.05
}

// meter returns one of tokens and seconds.
func meter(name string, rate, capacity, maxReserved float64) reservations.Meter {
	m := reservations.PerSecond(name, rate)
	switch m.Capacity = capacity; maxReserved {
	case 0:
		m.MaxReserved = reservations.None
	case math.Inf(1):
		m.MaxReserved = 0
	default:
		m.MaxReserved = maxReserved
	}
	return m
}

func window(rate float64, period time.Duration) reservations.Meter {
	return reservations.Meter{
		Name: "window", Kind: reservations.KindWindow, Rate: rate, Period: period,
	}
}

func every(seconds float64) func(int) float64 {
	return func(n int) float64 { return seconds * float64(n) }
}

func scenarios() (all []scenario) {
	inf := math.Inf(1)
	twenty := func(most float64) []reservations.Meter {
		return []reservations.Meter{meter("requests", 20, 20, most)}
	}
	chat := func(requests, tokens, capacity float64) []reservations.Meter {
		return []reservations.Meter{
			meter("requests", 10, capacity, requests), meter("tokens", 1000, 100*capacity, tokens),
		}
	}
	mixed := func(n int) []float64 {
		r := rand.New(rand.NewPCG(uint64(n), 3))
		return []float64{min(16, max(.2, math.Exp(.8*r.NormFloat64())))}
	}
	// A part of the chats needs many tokens, the others few.
	big := func(part float64) func(n int) []float64 {
		return func(n int) []float64 {
			r := rand.New(rand.NewPCG(uint64(n), 5))
			if r.Float64() < part {
				return []float64{1, 500 + 500*r.Float64()}
			}
			return []float64{1, 1 + 29*r.Float64()}
		}
	}
	for _, most := range []float64{inf, 100, 20, 5, 0} {
		all = append(all, scenario{name: fmt.Sprintf("backlog, max_reserved %g", most), meters: twenty(most)})
	}
	for _, rate := range []float64{18, 22, 30} {
		all = append(all, scenario{
			name: fmt.Sprintf("%g arrive a second", rate), meters: twenty(100), arrives: every(1 / rate),
		})
	}
	return append(
		all,
		scenario{name: "small capacity", meters: []reservations.Meter{meter("requests", 20, 1, inf)}, late: 2},
		scenario{name: "200 a second", meters: []reservations.Meter{meter("requests", 200, 20, 1000)}, tasks: 1000},
		scenario{name: "one in 5 seconds", meters: []reservations.Meter{meter("requests", .2, 1, inf)}, tasks: 20, late: 1},
		scenario{
			name: "bursts", meters: twenty(60), arrives: func(n int) float64 { return float64(n/100) * 4 },
		},
		scenario{name: "mixed sizes", meters: twenty(100), sizes: mixed, late: 2},
		scenario{
			name: "mixed sizes, small capacity", meters: []reservations.Meter{meter("requests", 20, 4, 100)},
			sizes: func(n int) []float64 { return []float64{min(4, mixed(n)[0])} }, late: 4,
		},
		scenario{name: "estimates three times too high", meters: twenty(100), used: .33, late: 3, deliveries: 2.2},
		scenario{
			name:       "the same, slow calls",
			meters:     twenty(400),
			used:       .33,
			latency:    5 * time.Second,
			late:       12,
			deliveries: 2.2,
		},
		scenario{name: "requests and tokens, 10 % big", meters: chat(inf, inf, 10), sizes: big(.1), tasks: 300, late: 5},
		scenario{name: "requests and tokens, half big", meters: chat(inf, inf, 10), sizes: big(.5), tasks: 100, late: 3},
		scenario{name: "the same, bounded", meters: chat(40, 4000, 10), sizes: big(.5), tasks: 100, late: 3},
		scenario{name: "window of 10 s", meters: []reservations.Meter{window(100, 10*time.Second)}, late: 11},
		scenario{
			name: "window of 10 s and 15/s", meters: []reservations.Meter{
				window(100, 10*time.Second), meter("requests", 15, 2, inf),
			}, late: 11,
		},
		scenario{
			name:    "five calls in flight",
			meters:  []reservations.Meter{reservations.InFlight(5)},
			latency: time.Second,
			tasks:   100,
			late:    3,
		},
		scenario{
			name: "twice the rate after 5 s", meters: twenty(100),
			plan: func(f *headwaytest.Fleet, api *headwaytest.API) { f.At(5*time.Second, func() { setRate(f, api, 40) }) },
		},
		scenario{
			name: "half the rate after 5 s", meters: twenty(100), late: 18,
			plan: func(f *headwaytest.Fleet, api *headwaytest.API) { f.At(5*time.Second, func() { setRate(f, nil, 10) }) },
		},
		scenario{
			name: "others take 4 a second", meters: twenty(100), late: 8,
			plan: func(f *headwaytest.Fleet, api *headwaytest.API) { takeOthers(f, api, 4, 20*time.Second) },
		},
		scenario{
			name: "urgent beside a backlog", meters: func() []reservations.Meter {
				m := meter("requests", 20, 20, 100)
				m.Headroom = 6
				return []reservations.Meter{m}
			}(),
			arrives: func(n int) float64 { return max(0, float64(n-300)/6) },
			charge:  func(n int, c *reservations.Charge) { c.Urgent = n >= 300 },
			late:    2,
		},
	)
}

// setRate changes the rate of the first meter for the fleet and, unless api is nil, for the provider.
func setRate(f *headwaytest.Fleet, api *headwaytest.API, rate float64) {
	m := meter("requests", rate, 20, 100)
	if api != nil {
		api.SetMeters(m)
	}
	f.SetLimits(reservations.Limit{Name: "api", Meters: []reservations.Meter{m}})
}

// takeOthers lets a program outside of the fleet's line take tokens where there are any.
func takeOthers(f *headwaytest.Fleet, api *headwaytest.API, perSecond float64, until time.Duration) {
	caller := api.Caller()
	for at := time.Duration(0); at < until; at += time.Duration(float64(time.Second) / perSecond) {
		f.At(at, func() {
			charge := reservations.Charge{Limit: "api", Tokens: reservations.Tokens{"requests": 1}}
			if g, err := f.Worker(0).Limiter.Allow(f.Context(), charge); err == nil && g.Started() {
				_ = caller.Do(f.Context(), headwaytest.Call{}) // a violation is counted
				_ = g.Settle(f.Context(), nil)
			}
		})
	}
}

func (s scenario) task(n int) tasks.Args {
	c := reservations.Charge{Limit: "api", Tokens: reservations.Tokens{}}
	t := randomTask{Used: reservations.Tokens{}}
	for i, m := range s.meters {
		if m.Kind == reservations.KindInFlight {
			continue
		}
		c.Tokens[m.Name] = 1
		if s.sizes != nil {
			c.Tokens[m.Name] = s.sizes(n)[i]
		}
		if s.used > 0 {
			t.Used[m.Name] = s.used * c.Tokens[m.Name]
		}
	}
	if s.charge != nil {
		s.charge(n, &c)
	}
	t.All = []reservations.Charge{c}
	return t
}

// best returns the least possible time until the last start, in seconds.
func (s scenario) best(count int) (least float64) {
	if s.arrives != nil {
		least = s.arrives(count - 1)
	}
	for i, m := range s.meters {
		sum := 0.
		for n := range count {
			size := 1.
			if s.sizes != nil {
				size = s.sizes(n)[i]
			}
			if s.used > 0 {
				size *= s.used
			}
			sum += size
		}
		switch m.Kind {
		case reservations.KindInFlight:
			least = max(least, (sum/m.Capacity-1)*s.latency.Seconds())
		case reservations.KindWindow:
			least = max(least, (math.Ceil(sum/m.Rate)-2)*m.Period.Seconds())
		case reservations.KindBucket, "":
			least = max(least, (sum-m.Cap())/m.Rate)
		}
	}
	return least
}

// In each scenario no call exceeds the limit, all tasks run once, and the last one starts about when it can.
func TestScenarios(t *testing.T) {
	t.Parallel()
	for _, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			count := s.tasks
			if count == 0 {
				count = 400
			}
			headwaytest.Run(t, func(f *headwaytest.Fleet) {
				latency := headwaytest.Between(50*time.Millisecond, 50*time.Millisecond)
				if s.latency > 0 {
					latency = headwaytest.Between(s.latency, s.latency)
				}
				api := f.Provider("api", headwaytest.Provider{Latency: latency})
				f.Workers(3, func(w *worker.Worker) {
					caller := api.Caller()
					worker.Handle(w, func(ctx context.Context, job *worker.Job[randomTask]) error {
						job.Use(job.Args.Used)
						return caller.Do(ctx, headwaytest.Call{Tokens: job.Args.All[0].Tokens, Used: job.Args.Used})
					})
				})
				if s.plan != nil {
					s.plan(f, api)
				}
				if s.arrives == nil {
					f.Backlog(count, s.task)
				} else {
					var times []time.Duration
					for n := range count {
						times = append(times, time.Duration(s.arrives(n)*float64(time.Second)))
					}
					f.Replay(times, s.task)
					f.Run(times[count-1] + time.Second)
				}
				f.Drain(30 * time.Minute)
				s.judge(t, f.Report(), count)
			}, headwaytest.Limits(reservations.Limit{Name: "api", Meters: s.meters}))
		})
	}
}

func (s scenario) judge(t *testing.T, r headwaytest.Report, count int) {
	t.Helper()
	late, deliveries, best := s.late, s.deliveries, s.best(count)
	if late == 0 {
		late = 1
	}
	if deliveries == 0 {
		deliveries = 2.05
	}
	if r.Violations > 0 || r.Done != count || r.Twice > 0 || r.Deliveries > deliveries ||
		r.LastStart.Seconds() > best*1.002+late {
		t.Errorf("want the last start within %.1f s and %.2f deliveries: %v", best*1.002+late, deliveries, r)
	}
}
