package simulate_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/products/simulate"
	"github.com/headway-go/headway/reservations"
)

// The expected times were computed by hand.
func TestRun(t *testing.T) {
	t.Parallel()
	adjust := perSecond("api", 10, 10)
	keep := perSecond("api", 10, 10)
	keep.Settle = reservations.SettleKeep
	flying := reservations.Limit{Name: "api", Meters: []reservations.Meter{reservations.InFlight(4)}}
	window := reservations.Limit{Name: "api", Meters: []reservations.Meter{reservations.PerDay("requests", 10)}}
	queue := perSecond("api", 10, reservations.None)
	narrow, wide := perSecond("tenant", 5, 5), perSecond("api", 10, 10)
	half := backlog(100, 0, charge("api", 1))
	for i := range half {
		half[i].Used = reservations.Tokens{"requests": .5}
	}
	for _, tc := range []struct {
		name           string
		limits         []reservations.Limit
		calls          []simulate.Call
		config         simulate.Config
		started, ended time.Duration
		p50, longest   time.Duration
		use            float64 // of the first meter
	}{
		{
			"ten a second",
			[]reservations.Limit{adjust},
			backlog(100, time.Second, charge("api", 1)),
			simulate.Config{},
			9 * time.Second, 10 * time.Second, 4 * time.Second, 9 * time.Second, 1,
		},
		{
			"no more than the capacity",
			[]reservations.Limit{adjust},
			backlog(10, time.Minute, charge("api", 1)),
			simulate.Config{},
			0, time.Minute, 0, 0, 1,
		},
		{
			// 19 start at once: then half a token is left. Each further one needs half a token more.
			"half of it comes back",
			[]reservations.Limit{adjust},
			half,
			simulate.Config{},
			4050 * time.Millisecond, 4050 * time.Millisecond, 1550 * time.Millisecond, 4050 * time.Millisecond, 1,
		},
		{
			"kept estimates",
			[]reservations.Limit{keep},
			half,
			simulate.Config{},
			9 * time.Second, 9 * time.Second, 4 * time.Second, 9 * time.Second, 1,
		},
		{
			"a pure queue",
			[]reservations.Limit{queue},
			backlog(11, 0, charge("api", 1)),
			simulate.Config{},
			time.Second, time.Second, 500 * time.Millisecond, time.Second, 1,
		},
		{
			"four calls in flight",
			[]reservations.Limit{flying},
			backlog(20, time.Second, reservations.Charge{Limit: "api"}),
			simulate.Config{},
			4 * time.Second, 5 * time.Second, 2 * time.Second, 4 * time.Second, 1,
		},
		{
			"ten a day from midnight",
			[]reservations.Limit{window},
			backlog(25, 0, charge("api", 1)),
			simulate.Config{},
			48 * time.Hour, 48 * time.Hour, 24 * time.Hour, 48 * time.Hour, 25. / 30,
		},
		{
			"ten a day from noon",
			[]reservations.Limit{window},
			backlog(25, 0, charge("api", 1)),
			simulate.Config{Start: simulate.StartDefault().Add(12 * time.Hour)},
			36 * time.Hour, 36 * time.Hour, 12 * time.Hour, 36 * time.Hour, 25. / 30,
		},
		{
			"a narrow limit before a wide one",
			[]reservations.Limit{narrow, wide},
			backlog(20, 0, charge("tenant", 1), charge("api", 1)),
			simulate.Config{},
			3 * time.Second, 3 * time.Second, time.Second, 3 * time.Second, 1,
		},
		{
			"above the capacity",
			[]reservations.Limit{adjust},
			backlog(3, 0, charge("api", 20)),
			simulate.Config{Large: true},
			4 * time.Second, 4 * time.Second, 2 * time.Second, 4 * time.Second, 60. / 50,
		},
		{
			"two slots",
			[]reservations.Limit{adjust},
			backlog(10, time.Second, charge("api", 1)),
			simulate.Config{Slots: 2},
			4 * time.Second, 5 * time.Second, 2 * time.Second, 4 * time.Second, 10. / 50,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := run(t, tc.limits, tc.calls, tc.config)
			near := func(what string, got, want time.Duration) {
				if (got - want).Abs() > time.Microsecond {
					t.Errorf("%s %v, want %v", what, got, want)
				}
			}
			near("last start", r.Started, tc.started)
			near("end", r.Ended, tc.ended)
			near("p50", r.Waits.P50, tc.p50)
			near("longest", r.Waits.Max, tc.longest)
			if got := r.Meters[0].Use; got < min(1, tc.use)-1e-6 || got > min(1, tc.use)+1e-6 {
				t.Errorf("use %v, want %v", got, tc.use)
			}
			if r.Done != len(tc.calls) || r.Calls != r.Done || r.Failed != 0 {
				t.Errorf("%d calls, %d done, %d failed", r.Calls, r.Done, r.Failed)
			}
		})
	}
}

// A provider that refuses one call for two seconds stops all calls, and the refused one is the first after that.
func TestRunRefused(t *testing.T) {
	t.Parallel()
	r := run(t, []reservations.Limit{perSecond("api", 10, 10)}, backlog(1000, time.Second, charge("api", 1)),
		simulate.Config{Seed: 3, Refuse: .01, RetryAfter: 2 * time.Second})
	if r.Refused == 0 || r.Done != 1000 || r.Failed != 0 {
		t.Fatalf("%d refused, %d done, %d failed", r.Refused, r.Done, r.Failed)
	}
	least := 99*time.Second - 10*100*time.Millisecond + time.Duration(r.Refused)*time.Second
	if r.Started < least || r.Started > 100*time.Second+time.Duration(r.Refused)*3*time.Second {
		t.Errorf("%d refusals, last start after %v", r.Refused, r.Started)
	}
	if m := r.Meters[0]; m.Blocked < 2*time.Second || m.Use < .9 {
		t.Errorf("blocked %v, use %v", m.Blocked, m.Use)
	}
}

// A call that is refused each time fails, and the simulation ends.
func TestRunFails(t *testing.T) {
	t.Parallel()
	r := run(t, []reservations.Limit{perSecond("api", 10, 10)}, backlog(200, time.Second, charge("api", 1)),
		simulate.Config{Refuse: simulate.RefuseMost, RetryAfter: time.Second, MaxRefusals: 2})
	if r.Failed < 100 || r.Failed+r.Done != 200 {
		t.Errorf("%d failed, %d done", r.Failed, r.Done)
	}
}

// Weights share a limit among flows that wait, and priorities come before them.
func TestRunShares(t *testing.T) {
	t.Parallel()
	l := perSecond("api", 10, 1)
	l.Weights = map[string]float64{"acme": 3}
	l.Priorities = map[string]float64{"interactive": 9, "batch": 1}
	var calls []simulate.Call
	for range 1000 {
		for _, of := range []struct{ flow, priority string }{
			{"acme", "batch"}, {"globex", "batch"}, {"initech", "interactive"},
		} {
			c := charge("api", 1)
			c.Flow, c.Priority = of.flow, of.priority
			calls = append(calls, simulate.Call{Charges: []reservations.Charge{c}})
		}
	}
	r := run(t, []reservations.Limit{l}, calls, simulate.Config{})
	last := map[string]time.Duration{}
	for _, f := range r.Flows {
		last[f.Flow] = f.Max
	}
	// initech has 9 of 10 starts: 1000 of them take 111 s. In these 111 calls of the others start, three of four of
	// acme. The other 917 calls of acme take 122 s more for three of four starts, and all take 300 s.
	for flow, want := range map[string]time.Duration{
		"initech": 111 * time.Second, "acme": 233 * time.Second, "globex": 300 * time.Second,
	} {
		if got := last[flow]; got < want-2*time.Second || got > want+2*time.Second {
			t.Errorf("last start of %s after %v, want about %v", flow, got, want)
		}
	}
}

// Urgent calls use the headroom, and pass ordinary ones that wait.
func TestRunUrgent(t *testing.T) {
	t.Parallel()
	l := perSecond("api", 10, 10)
	l.Meters[0].Headroom = 5
	calls := backlog(100, 0, charge("api", 1))
	urgent := charge("api", 1)
	urgent.Urgent, urgent.Flow = true, "urgent"
	calls = append(calls, simulate.Call{At: time.Second, Charges: []reservations.Charge{urgent}})
	r := run(t, []reservations.Limit{l}, calls, simulate.Config{})
	for _, f := range r.Flows {
		if f.Flow == "urgent" && f.Max != 0 {
			t.Errorf("the urgent call waited %v", f.Max)
		}
	}
}

func TestRunIsRepeatable(t *testing.T) {
	t.Parallel()
	l := perSecond("api", 10, 10)
	l.Shards = 4
	l.Meters[0].Capacity = 40
	pattern := simulate.Pattern{
		Buckets: []reservations.Charge{{Limit: "api"}}, Latency: simulate.Range{Least: 1, Most: 9},
		Flows: []simulate.FlowShare{{Name: "a", Share: 3}, {Name: "b", Share: 1}},
	}
	once := func(seed uint64) simulate.Result {
		calls, err := simulate.Arrivals{Rate: 9.5, For: 10 * time.Minute, Seed: seed}.Calls(pattern, []reservations.Limit{l})
		if err != nil {
			t.Fatal(err)
		}
		return run(t, []reservations.Limit{l}, calls, simulate.Config{Seed: seed, Refuse: .01, RetryAfter: time.Second})
	}
	first := once(1)
	if !reflect.DeepEqual(first, once(1)) {
		t.Error("the same seed has two results")
	}
	if reflect.DeepEqual(first, once(2)) {
		t.Error("two seeds have the same result")
	}
}

func TestRunErrors(t *testing.T) {
	t.Parallel()
	limits := []reservations.Limit{perSecond("api", 10, 10)}
	for name, tc := range map[string]struct {
		calls  []simulate.Call
		config simulate.Config
		want   string
	}{
		"no charge": {backlog(1, 0), simulate.Config{}, "call 1: charges: needs at least one charge"},
		"above the capacity": {
			backlog(1, 0, charge("api", 11)),
			simulate.Config{},
			`call 1: requests: 11 is above the capacity of limit "api", 10`,
		},
		"unknown limit": {
			backlog(1, 0, charge("apis", 1)),
			simulate.Config{},
			`call 1: reservations: unknown limit: "apis" is not configured; there is "api"`,
		},
		"unknown meter": {
			backlog(1, 0, reservations.Charge{Limit: "api", Tokens: reservations.Tokens{"request": 1}}),
			simulate.Config{},
			`limit "api" has no such meter`,
		},
		"negative latency": {backlog(1, -1, charge("api", 1)), simulate.Config{}, "call 1: latency: -1ns must be from 0 to"},
		"negative time": {
			[]simulate.Call{{At: -1, Line: 7, Charges: []reservations.Charge{charge("api", 1)}}},
			simulate.Config{},
			"line 7: at: -1ns must not be negative",
		},
		"not in order": {
			[]simulate.Call{{At: 2, Charges: []reservations.Charge{charge("api", 1)}}, {At: 1}},
			simulate.Config{},
			"calls must be in the order of their arrival",
		},
		"slots":       {nil, simulate.Config{Slots: -1}, "slots: -1 must be zero or more"},
		"refuse":      {nil, simulate.Config{Refuse: 1}, "refuse: 1 must be from 0 to 0.9"},
		"retry after": {nil, simulate.Config{Refuse: .1}, "retry-after: 0s must be above zero"},
	} {
		if _, err := simulate.Run(limits, tc.calls, tc.config); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
	_, err := simulate.Run([]reservations.Limit{{}}, nil, simulate.Config{})
	if !errors.Is(err, reservations.ErrInvalidLimit) {
		t.Errorf("limit without meters: %v", err)
	}
}

// Nothing is no fault of the engine, and a limit that serves a call after centuries ends at the horizon.
func TestRunExtremes(t *testing.T) {
	t.Parallel()
	if r := run(t, []reservations.Limit{perSecond("api", 10, 10)}, nil, simulate.Config{}); r.Calls != 0 || r.Ended != 0 {
		t.Errorf("no calls: %+v", r)
	}
	slow := perSecond("api", 1e-9, 1)
	r := run(t, []reservations.Limit{slow}, backlog(3, time.Second, charge("api", 1)), simulate.Config{})
	if r.Done != 1 || r.Waiting.Most != 2 {
		t.Errorf("%d done, %d waited", r.Done, r.Waiting.Most)
	}
}
