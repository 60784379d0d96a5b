package fleets_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/headway-go/headway/headwaytest"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
)

// randomTask is a task of a random fleet, with what it really uses.
type randomTask struct {
	All  []reservations.Charge `json:"all"`
	Used reservations.Tokens   `json:"used,omitempty"`
}

func (randomTask) TaskType() string                 { return "random" }
func (r randomTask) Charges() []reservations.Charge { return r.All }

// randomFleet is a fleet that a seed draws.
type randomFleet struct {
	*rand.Rand

	workers, tasks int
	api            reservations.Limit
	limits         []reservations.Limit
	provider       headwaytest.Provider
	options        []headwaytest.Option
	tenants        int // with a limit of their own; zero means none
	flows          int
	urgent         bool
	settles        bool
	perSecond      float64 // zero means a backlog
	faults         []string
	kills          map[int]int // of each worker, without the ones after which it was started again
	slow           []slowTime
}

// slowTime is a time in which calls may begin later than the buckets decided.
type slowTime struct {
	from, until time.Duration // of violations that it explains
	late        time.Duration // how late calls begin at most
}

// slowly notes that each message of some processes takes longer for a time. Between the moment at which a bucket
// decides and the call are at most three messages. They are the one that brings a bucket in Redis to its call in the
// queue, the swap, and its answer. The last late call meets the next one. That one waits at most for a third of a
// capacity of five seconds.
func (f *randomFleet) slowly(from, d, more time.Duration) {
	late := 3 * more
	f.slow = append(f.slow, slowTime{from: from, until: from + d + late + hold + 2*time.Second, late: late})
}

func one[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func newRandomFleet(seed uint64) *randomFleet {
	r := rand.New(rand.NewPCG(seed, 7))
	f := &randomFleet{
		Rand: r, workers: 1 + r.IntN(4), tasks: one(r, 60, 120, 240), flows: one(r, 1, 1, 3), settles: r.IntN(3) == 0,
		kills: map[int]int{}, api: reservations.Limit{Name: "api"}, perSecond: one(r, 0, 0, 3, 20.),
	}
	for i := range one(r, 1, 1, 2, 3) {
		f.api.Meters = append(f.api.Meters, f.meter(i))
	}
	if r.IntN(5) == 0 {
		f.api.Meters = append(f.api.Meters, reservations.InFlight(one(r, 2, 5, 20)))
	}
	if m := &f.api.Meters[0]; m.Kind != reservations.KindWindow && m.Capacity >= 4 && r.IntN(4) == 0 {
		m.Headroom, f.urgent = m.Capacity/4, true
	}
	f.limits = []reservations.Limit{f.api}
	if r.IntN(4) == 0 {
		f.tenants = one(r, 2, 5)
		m := reservations.PerSecond("requests", one(r, 1., 5, 20))
		f.limits = append(f.limits, reservations.Limit{Name: "tenant", Meters: []reservations.Meter{m}})
	}
	f.provider.Latency = one(r, headwaytest.Between(0, 0), headwaytest.Between(0, 50*time.Millisecond),
		headwaytest.Between(50*time.Millisecond, 3*time.Second))
	if r.IntN(3) == 0 {
		f.provider.Refuse, f.provider.RetryAfter = one(r, .02, .1), one(r, time.Second, 5*time.Second)
	}
	if r.IntN(4) == 0 {
		f.provider.Fail, f.provider.Drop = .02, .02
	}
	if r.IntN(2) == 0 {
		delay := one(r, 200*time.Microsecond, 2*time.Millisecond)
		f.options = append(f.options, headwaytest.Network(50*time.Microsecond, delay))
	}
	if r.IntN(4) == 0 {
		f.options = append(f.options, headwaytest.BucketsInRedis())
	}
	for range one(r, 0, 0, 1, 1, 2, 3) {
		f.faults = append(f.faults, one(r, "kill", "restart", "cut off", "slow", "redis down", "redis hangs", "redis loses",
			"store down", "store hangs", "store loses", "redis slow", "faster", "slower"))
	}
	return f
}

// meter draws a meter. A window has room for all tasks within a few periods.
func (f *randomFleet) meter(i int) reservations.Meter {
	rate := one(f.Rand, 2., 10, 50, 200)
	m := reservations.PerSecond("m"+strconv.Itoa(i), rate)
	if i == 0 {
		m.Name = "requests"
	}
	m.Capacity = max(1, rate*one(f.Rand, .5, 1, 5))
	m.MaxReserved = one(f.Rand, 0, reservations.None, rate, 20*rate)
	if i > 0 && f.IntN(4) == 0 {
		m = reservations.Meter{
			Name: m.Name, Kind: reservations.KindWindow, Rate: max(20, 2*rate), Period: 10 * time.Second,
			MaxReserved: 0,
		}
	}
	return m
}

// task draws the task of a number.
func (f *randomFleet) task(n int) tasks.Args {
	r := rand.New(rand.NewPCG(uint64(n), 11))
	charge := reservations.Charge{Limit: "api", Tokens: reservations.Tokens{}, Flow: "flow" + strconv.Itoa(n%f.flows)}
	t := randomTask{Used: reservations.Tokens{}}
	for i, m := range f.api.Meters {
		if m.Kind == reservations.KindInFlight {
			continue
		}
		size := 1.
		if i > 0 {
			size = max(.01, m.Cap()*.3*r.Float64())
		}
		if m.Kind == reservations.KindWindow {
			size = 1
		}
		charge.Tokens[m.Name] = size
		if f.settles && i > 0 && m.Kind != reservations.KindWindow {
			t.Used[m.Name] = size * (.2 + .8*r.Float64())
		}
	}
	charge.Urgent = f.urgent && n%5 == 0
	if f.tenants > 0 {
		t.All = append(t.All, reservations.Charge{
			Limit: "tenant", Key: strconv.Itoa(n % f.tenants), Tokens: reservations.Tokens{"requests": 1},
		})
	}
	t.All = append(t.All, charge)
	return t
}

// plan lets a fault happen at a random moment.
func (f *randomFleet) plan(fleet *headwaytest.Fleet, api *headwaytest.API, fault string) {
	at := time.Duration(f.Float64() * float64(20*time.Second))
	d := one(f.Rand, 500*time.Millisecond, 4*time.Second, 15*time.Second)
	n := f.IntN(f.workers)
	const ofWorker, ofRedis = 200 * time.Millisecond, 50 * time.Millisecond
	switch fault {
	case "slow":
		f.slowly(at, d, ofWorker)
	case "redis slow":
		f.slowly(at, d, ofRedis)
	}
	fleet.At(at, func() {
		switch fault {
		case "kill", "restart":
			fleet.Worker(n).Kill()
			f.kills[n]++
			if fault == "restart" || n == 0 { // so that one is left
				fleet.At(fleet.Elapsed()+d, func() {
					if f.kills[n]--; f.kills[n] == 0 { // no later kill holds
						fleet.Restart(n)
					}
				})
			}
		case "cut off":
			fleet.Worker(n).CutOff(d)
		case "slow":
			fleet.Worker(n).Slow(ofWorker, d)
		case "redis down":
			fleet.Redis.Down(d)
		case "redis hangs":
			fleet.Redis.Hang(d)
		case "redis loses":
			fleet.Redis.Lose(.02, d)
		case "redis slow":
			fleet.Redis.Slow(ofRedis, d)
		case "store down":
			fleet.Store.Down(d)
		case "store hangs":
			fleet.Store.Hang(d)
		case "store loses":
			fleet.Store.Lose(.05, d)
		case "faster", "slower":
			f.change(fleet, api, fault == "faster")
		}
	})
}

// change sets other rates. The provider is the more generous one while the change is under way.
func (f *randomFleet) change(fleet *headwaytest.Fleet, api *headwaytest.API, faster bool) {
	next := f.api
	next.Meters = nil
	for _, m := range f.api.Meters {
		if m.Kind == reservations.KindBucket || m.Kind == "" {
			capacity := m.Cap()
			if m.Rate /= 2; faster {
				m.Rate *= 4
			}
			m.Capacity = capacity
		}
		next.Meters = append(next.Meters, m)
	}
	if faster {
		api.SetMeters(next.Meters...)
	}
	fleet.SetLimits(append([]reservations.Limit{next}, f.limits[1:]...)...)
}

// exceeded reports whether calls exceeded the limit. A call may arrive sooner after its start than others did: up to a
// millisecond of refill is no excess, and in a slow time what comes back while calls are late.
func (f *randomFleet) exceeded(r headwaytest.Report) bool {
	seen := r.Providers["api"]
	return r.Violations > len(seen.Violations) || slices.ContainsFunc(seen.Violations, f.isExcess)
}

func (f *randomFleet) isExcess(v headwaytest.Violation) bool {
	m := f.api.Meters[slices.IndexFunc(f.api.Meters, func(m reservations.Meter) bool { return m.Name == v.Meter })]
	if m.Period == 0 {
		return true
	}
	rate, late := m.Rate/m.Period.Seconds(), time.Millisecond
	if slices.Contains(f.faults, "faster") {
		rate *= 2
	}
	for _, s := range f.slow {
		if v.At >= s.from && v.At <= s.until {
			late = max(late, s.late)
		}
	}
	return v.Need-v.Had > rate*late.Seconds()
}

// What a slow time explains is bounded, and so is the time.
func TestWhatSlowAnswersExplain(t *testing.T) {
	t.Parallel()
	f := &randomFleet{api: limit(perSecond(2, 4), reservations.InFlight(3))}
	f.slowly(10*time.Second, 4*time.Second, 50*time.Millisecond)
	for _, c := range []struct {
		meter  string
		at     time.Duration
		excess float64
		want   bool
	}{
		{"requests", 5 * time.Second, .0019, false},
		{"requests", 5 * time.Second, .01, true},
		{"requests", 12 * time.Second, .299, false}, // 150 ms of refill
		{"requests", 12 * time.Second, .31, true},
		{"requests", 16 * time.Second, .299, false},
		{"requests", 17 * time.Second, .299, true},
		{reservations.MeterInFlight, 12 * time.Second, 1, true},
	} {
		if v := (headwaytest.Violation{At: c.at, Meter: c.meter, Need: 1 + c.excess, Had: 1}); f.isExcess(v) != c.want {
			t.Errorf("%+v: excess %v", v, !c.want)
		}
	}
}

func (f *randomFleet) String() string {
	return fmt.Sprintf(
		"%d workers, %d tasks (%g/s), %d tenants, faults %q, limit %+v",
		f.workers,
		f.tasks,
		f.perSecond,
		f.tenants,
		f.faults,
		f.api,
	)
}

// run runs the fleet until all tasks have ended.
func (f *randomFleet) run(t *testing.T, seed uint64) {
	t.Helper()
	headwaytest.Run(t, func(fleet *headwaytest.Fleet) {
		api := fleet.Provider("api", f.provider)
		fleet.Workers(f.workers, func(w *worker.Worker) {
			caller := api.Caller()
			worker.Handle(w, func(ctx context.Context, job *worker.Job[randomTask]) error {
				charge := job.Args.All[len(job.Args.All)-1]
				err := caller.Do(ctx, headwaytest.Call{Tokens: charge.Tokens, Used: job.Args.Used})
				if refused, ok := errors.AsType[*headwaytest.RefusedError](err); ok && refused != nil {
					return err // nothing was used, and nothing is settled
				}
				if ctx.Err() == nil {
					job.Use(job.Args.Used)
				}
				return err
			})
		})
		last := time.Duration(0)
		if f.perSecond == 0 {
			fleet.Backlog(f.tasks, f.task)
		} else {
			var times []time.Duration
			for range f.tasks {
				last += time.Duration(f.ExpFloat64() / f.perSecond * float64(time.Second))
				times = append(times, last)
			}
			fleet.Replay(times, f.task)
		}
		for _, fault := range f.faults {
			f.plan(fleet, api, fault)
		}
		fleet.Run(last + 40*time.Second) // all faults have begun and ended
		fleet.Drain(4 * time.Hour)
		r := fleet.Report()
		if f.exceeded(r) || r.Lost > 0 || r.Done < f.tasks {
			t.Errorf("seed %d: %v: %v", seed, f, r)
		}
	}, append(f.options, headwaytest.Limits(f.limits...), headwaytest.Seed(seed))...)
}

// Whatever a fleet is and whatever fails, no call exceeds the limit and no task is lost. HEADWAY_FLEETS is the number
// of fleets, 200 or 24 with -short, and HEADWAY_FLEETS_FROM the first seed.
func TestRandomFleets(t *testing.T) {
	t.Parallel()
	many := 200
	if testing.Short() {
		many = 24
	}
	fleets, from := number(t, "HEADWAY_FLEETS", many), number(t, "HEADWAY_FLEETS_FROM", 0)
	for seed := from; seed < from+fleets; seed++ {
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			t.Parallel()
			newRandomFleet(uint64(seed)).run(t, uint64(seed))
		})
	}
}

// number returns a number of the environment.
func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		t.Fatalf("%s is %q: must be a number of zero or more", name, text)
	}
	return n
}
