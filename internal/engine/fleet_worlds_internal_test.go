package engine

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/longtest"
	"github.com/headway-go/headway/reservations"
)

// fleetWorld is a fleet with faults, and the bounds of its result.
type fleetWorld struct {
	fleet

	late       float64 // seconds until the last start above the least possible, plus .2
	deliveries float64 // per task; zero: 2.0
	most       int     // deliveries of one task; zero: 3
	win        float64 // zero: 1.0005
	lost       float64 // places in percent; zero: 1
}

func (f fleetWorld) withDefaults() fleetWorld {
	f.seed = 1
	f.processes = 3
	if f.arrive == nil {
		f.arrive = every(.0005) // the first tasks that arrive at once would join in any order
	}
	f.redis, f.store = or(f.redis, .001), or(f.store, .002)
	f.tasks = orInt(f.tasks, 3000)
	if f.limits == nil {
		f.limits = hundred(500)
	}
	f.deliveries, f.win, f.lost = or(f.deliveries, 2), or(f.win, 1.0005), or(f.lost, 1)
	f.most = orInt(f.most, 3)
	return f
}

func fleetWorlds() []fleetWorld {
	limited := func(change func(*reservations.Limit)) []reservations.Limit {
		limits := hundred(500)
		change(&limits[0])
		return limits
	}
	r := newPythonRandom(7)
	over := make([]float64, 3000)
	for i := range over {
		over[i] = r.uniform(.3, 1)
	}
	constant := func(by float64) func(float64) float64 { return func(float64) float64 { return by } }
	drift := func(by float64) func(float64) float64 { return func(now float64) float64 { return by * now } }
	jump := func(by float64) func(float64) float64 {
		return func(now float64) float64 {
			if now < 10 {
				return 0
			}
			return by
		}
	}
	away := [2]float64{10, 20}
	return []fleetWorld{
		{fleet: fleet{name: "nothing goes wrong"}},
		{fleet: fleet{name: "two dispatchers", dispatchers: 2}},
		{fleet: fleet{name: "two dispatchers on duty at once", dispatchers: 2, twins: true}},
		{
			fleet: fleet{name: "two dispatchers on duty at once, too high", dispatchers: 2, twins: true, real: over}, late: .5,
			lost: 8,
		},
		{fleet: fleet{name: "dispatcher frozen for 10 s", dispatchers: 2, freeze: away}, late: 2, lost: 4},
		{
			fleet: fleet{name: "dispatcher frozen for 10 s, too high", dispatchers: 3, freeze: away, real: over}, late: 2.5,
			lost: 8,
		},
		{fleet: fleet{name: "no dispatcher for 10 s", crash: away}, late: 10, lost: 4},

		{fleet: fleet{name: "store 90 s ahead", storeAhead: constant(90)}},
		{fleet: fleet{name: "store 90 s behind", storeAhead: constant(-90)}},
		{fleet: fleet{name: "Redis 30 s ahead, store 60 s behind", redisAhead: constant(30), storeAhead: constant(-60)}},
		{fleet: fleet{name: "Redis 1 % fast", redisAhead: drift(.01)}},
		{fleet: fleet{name: "Redis 1 % slow", redisAhead: drift(-.01)}},
		{fleet: fleet{name: "store 1 % fast", storeAhead: drift(.01)}, win: 1.0101},
		{fleet: fleet{name: "store 5 s forward", storeAhead: jump(5)}, win: 1.5, lost: 4},
		{fleet: fleet{name: "store 5 s back", storeAhead: jump(-5)}, late: 5, deliveries: 2.05, most: 40},
		{fleet: fleet{name: "store 90 s back", storeAhead: jump(-90)}, late: .2},
		{fleet: fleet{name: "Redis 60 s forward", redisAhead: jump(60)}, late: .2},
		{fleet: fleet{name: "Redis 5 s back", redisAhead: jump(-5)}, late: 2, lost: 4},
		{fleet: fleet{name: "Redis 60 s back", dispatchers: 2, redisAhead: jump(-60)}, late: 2, lost: 4},

		{fleet: fleet{name: "answers 500 ms late", gather: .5}},
		{fleet: fleet{name: "answers 500 ms late, too high", gather: .5, real: over}, late: .5, lost: 10},
		{fleet: fleet{name: "2 % of the answers lost", lose: .02, seed: 1}, late: 3, most: 5, lost: 6},
		{fleet: fleet{name: "workers look every 50 ms", poll: .05}},
		{fleet: fleet{name: "store down for 15 s", down: [2]float64{10, 25}}, late: 15 + 20, most: 8, lost: 4},
		{fleet: fleet{name: "all workers killed", kill: []float64{10}}},
		{
			fleet: fleet{name: "all workers killed twice", kill: []float64{10, 20}, run: 1, slots: 150}, deliveries: 2.1,
			most: 4, lost: 6,
		},

		{fleet: fleet{name: "max_reserved 50", limits: hundred(50)}},
		{
			fleet: fleet{name: "max_reserved 50, store down for 15 s", limits: hundred(50), down: [2]float64{10, 25}},
			late:  15 + 20, most: 8, lost: 4,
		},
		{fleet: fleet{name: "max_wait 10 s", limits: limited(func(l *reservations.Limit) { l.MaxWait = seconds(10) })}},
		{fleet: fleet{name: "4 shards", limits: limited(func(l *reservations.Limit) { l.Shards = 4 })}, late: .5, lost: 5},
		{fleet: tenants("tenants below a provider", 0), most: 2, lost: .3},
		{fleet: tenants("tenants below a provider, 2 ms away", .002), most: 4},
	}
}

// shortWorlds run with -short.
var shortWorlds = []string{
	"dispatcher frozen for 10 s, too high", "store down for 15 s", "all workers killed",
	"tenants below a provider, 2 ms away",
}

// tenants returns a fleet of five tenants of 10 a second each, below a provider of 20 a second.
func tenants(name string, latency float64) fleet {
	limits := []reservations.Limit{
		{Name: "provider", Meters: []reservations.Meter{tokenMeter("tokens", 20, 20, reservations.Unlimited)}},
		{Name: "tenant", Meters: []reservations.Meter{tokenMeter("tokens", 10, 10, reservations.Unlimited)}},
	}
	return fleet{
		name: name, tasks: 2000, limits: limits, redis: max(1e-9, latency/2), store: max(1e-9, latency),
		charges: func(task int) []reservations.Charge {
			one := reservations.Tokens{"tokens": 1}
			return []reservations.Charge{
				{Limit: "tenant", Key: strconv.Itoa(task % 5), Tokens: one}, {Limit: "provider", Tokens: one},
			}
		},
	}
}

// After a stall the bucket is full, and a hundred tasks are delivered at the same time, in any order. A store whose
// clock jumps forward fills its buckets early. If it jumps back, it fills them late, and the first task asks in vain.
//
// Whatever fails, no window exceeds the limit by the clock of the store, no task is left, the limit is used and the
// order kept.
func TestFleetWorlds(t *testing.T) {
	t.Parallel()
	all := fleetWorlds()
	if longtest.Short(t, time.Minute) {
		all = slices.DeleteFunc(all, func(f fleetWorld) bool { return !slices.Contains(shortWorlds, f.name) })
	}
	for _, f := range all {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			f = f.withDefaults()
			got := simulate(t, f.fleet)
			t.Log(got)
			if got.done < f.tasks || got.win > f.win || got.took > got.best+f.late+.2 || got.deliveries > f.deliveries ||
				got.most > f.most || got.lost > f.lost {
				t.Errorf("got %v, want at most %.1f s late, %.2f deliveries, most %d, win %.4f, lost %.2f",
					got, f.late, f.deliveries, f.most, f.win, f.lost)
			}
		})
	}
}
