package headwaytest_test

import (
	"testing"
	"time"

	"github.com/headway-go/headway/headwaytest"
	"github.com/headway-go/headway/internal/test/night"
)

// moment is when a fault begins.
const moment = 20 * time.Second

// fault is one thing that goes wrong while a backlog of 600 tasks starts at 10 a second.
type fault struct {
	name     string
	provider headwaytest.Provider
	options  []headwaytest.Option
	plan     func(f *headwaytest.Fleet)
	within   time.Duration // until the last start; zero means 62 s
	night    bool          // the gate has a case that is like it
	use      float64       // zero means .98
}

// at plans a fault at the moment of all faults.
func at(do func(f *headwaytest.Fleet)) func(f *headwaytest.Fleet) {
	return func(f *headwaytest.Fleet) { f.At(moment, func() { do(f) }) }
}

func faults() []fault {
	long := 15 * time.Second
	calls := headwaytest.Provider{Latency: headwaytest.Between(50*time.Millisecond, 1500*time.Millisecond)}
	refusing := calls
	refusing.Refuse, refusing.RetryAfter = .07, 3*time.Second
	failing := calls
	failing.Fail, failing.Drop = .02, .02
	network := headwaytest.Network(100*time.Microsecond, 300*time.Microsecond)
	return []fault{
		{name: "none"},
		{
			name: "killed", night: true, plan: at(func(f *headwaytest.Fleet) { f.Worker(0).Kill() }),
			within: 4 * time.Minute, use: .4,
		},
		{
			name: "all killed, and started again",
			plan: func(f *headwaytest.Fleet) {
				for n := range 3 {
					f.At(moment, func() { f.Worker(n).Kill() })
				}
				f.At(moment+5*time.Second, func() {
					for n := range 3 {
						f.Restart(n)
					}
				})
			},
			within: 4 * time.Minute, use: .6,
		},
		{name: "stopped", night: true, plan: at(func(f *headwaytest.Fleet) { f.Worker(0).Stop() })},
		{
			name: "Redis down", night: true, plan: at(func(f *headwaytest.Fleet) { f.Redis.Down(long) }),
			within: 90 * time.Second, use: .7,
		},
		{
			name:   "Redis hangs",
			plan:   at(func(f *headwaytest.Fleet) { f.Redis.Hang(long) }),
			within: 100 * time.Second,
			use:    .7,
		},
		{
			name: "Redis loses answers", plan: at(func(f *headwaytest.Fleet) { f.Redis.Lose(.02, 5*time.Second) }),
			within: 4 * time.Minute, use: .4,
		},
		{
			name: "store down", night: true, plan: at(func(f *headwaytest.Fleet) { f.Store.Down(long) }),
			within: 100 * time.Second, use: .6,
		},
		{
			name:   "store hangs",
			plan:   at(func(f *headwaytest.Fleet) { f.Store.Hang(long) }),
			within: 100 * time.Second,
			use:    .6,
		},
		{
			name: "store loses answers", night: true, plan: at(func(f *headwaytest.Fleet) { f.Store.Lose(.02, long) }),
			within: 70 * time.Second, use: .95,
		},
		{name: "refusals", provider: refusing, within: 5 * time.Minute, use: .9},
		{name: "failures", night: true, provider: failing, within: 10 * time.Minute},
		{
			name: "slow worker", night: true,
			plan:   at(func(f *headwaytest.Fleet) { f.Worker(0).Slow(300*time.Millisecond, moment) }),
			within: 70 * time.Second, use: .4,
		},
		{
			name: "cut off", plan: at(func(f *headwaytest.Fleet) { f.Worker(0).CutOff(45 * time.Second) }),
			within: 4 * time.Minute, use: .4,
		},
		{name: "delays", night: true, options: []headwaytest.Option{network}},
		{
			name: "buckets in Redis", night: true,
			options: []headwaytest.Option{headwaytest.BucketsInRedis(), network},
			within:  65 * time.Second,
			use:     .97,
		},
		{
			name: "all at once", provider: refusing, options: []headwaytest.Option{network},
			plan: func(f *headwaytest.Fleet) {
				f.At(15*time.Second, f.Worker(0).Kill)
				f.At(30*time.Second, func() { f.Redis.Hang(long) })
				f.At(60*time.Second, func() { f.Store.Down(long) })
			},
			within: 8 * time.Minute, use: .5,
		},
	}
}

// Whatever fails, no call exceeds the limit, no task is lost, and the limit is used.
func TestFaults(t *testing.T) {
	t.Parallel()
	part := night.Part(t, "seventeen fleets take half a minute of a processor")
	for _, c := range faults() {
		if part && c.night {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			headwaytest.Run(t, func(f *headwaytest.Fleet) {
				if c.provider.Latency == nil {
					c.provider.Latency = headwaytest.Between(50*time.Millisecond, 1500*time.Millisecond)
				}
				f.Workers(3, calls(f.Provider("api", c.provider)))
				f.Backlog(600, one)
				if c.plan != nil {
					c.plan(f)
				}
				f.Drain(20 * time.Minute)
				c.judge(t, f.Report())
			}, append(c.options, headwaytest.Limits(perSecond(10, 10)))...)
		})
	}
}

func (c fault) judge(t *testing.T, r headwaytest.Report) {
	t.Helper()
	within, use := max(c.within, 62*time.Second), c.use
	if use == 0 {
		use = .98
	}
	if r.Violations > 0 || r.Ignored > 0 || r.Lost > 0 || r.Done != r.Tasks || r.LastStart > within || r.Use["api"] < use {
		t.Errorf("want the last start within %v and %g used: %v", within, use, r)
	}
}
