package simulate_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/products/simulate"
	"github.com/headway-go/headway/reservations"
)

// Arrivals are as many as they should be, and the flows have their shares. Other tokens do not change their times.
func TestArrivals(t *testing.T) {
	t.Parallel()
	limits := traceLimits()
	pattern := tracePattern()
	pattern.Flows = []simulate.FlowShare{{Name: "acme", Share: 3}, {Name: "globex", Share: 1}}
	used := simulate.Range{Least: .5, Most: .5}
	pattern.Used, pattern.Share = &used, true
	a := simulate.Arrivals{Rate: 10, For: time.Hour, Backlog: 5, Seed: 1}
	calls, err := a.Calls(pattern, limits)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(calls); math.Abs(float64(n)-36_000) > 4*190 {
		t.Errorf("%d calls", n)
	}
	acme := 0
	for _, c := range calls {
		if c.Charges[0].Flow == "acme" {
			acme++
		}
		if c.Used["tokens"] != 50 || c.Latency != 5*time.Second || c.At >= time.Hour {
			t.Fatalf("%+v", c)
		}
	}
	if share := float64(acme) / float64(len(calls)); math.Abs(share-.75) > .02 {
		t.Errorf("%v of the calls are of acme", share)
	}
	if calls[4].At != 0 || calls[5].At == 0 {
		t.Errorf("the backlog arrives at %v, the next call at %v", calls[4].At, calls[5].At)
	}
	pattern.Tokens = simulate.Range{Least: 1, Most: 1000}
	others, err := a.Calls(pattern, limits)
	if err != nil || len(others) != len(calls) || others[999].At != calls[999].At {
		t.Errorf("other tokens have other times: %v", err)
	}
}

func TestArrivalsErrors(t *testing.T) {
	t.Parallel()
	good := simulate.Arrivals{Backlog: 1}
	for name, tc := range map[string]struct {
		arrivals simulate.Arrivals
		change   func(*simulate.Pattern)
		want     string
	}{
		"unknown limit": {
			good, func(p *simulate.Pattern) { p.Buckets[0].Limit = "opanai" },
			`limit: "opanai": reservations: unknown limit`,
		},
		"no tokens": {
			good, func(p *simulate.Pattern) { p.Tokens = simulate.Range{} },
			`tokens: limit "openai" has the meter "tokens": say how many a call takes`,
		},
		"a range upside down": {
			good, func(p *simulate.Pattern) { p.Tokens = simulate.Range{Least: 2, Most: 1} }, `tokens: 2..1 must be two numbers`,
		},
		"a share of zero": {
			good, func(p *simulate.Pattern) { p.Flows = []simulate.FlowShare{{Name: "a"}} }, `flow: "a" has the share 0`,
		},
		"backlog":         {simulate.Arrivals{Backlog: -1}, nil, "backlog: -1 must be zero or more"},
		"rate":            {simulate.Arrivals{Rate: -1}, nil, "arrive: -1 calls a second"},
		"not a number":    {simulate.Arrivals{Rate: math.NaN()}, nil, "arrive: NaN calls a second"},
		"for":             {simulate.Arrivals{Rate: 1, For: -time.Second}, nil, "for: -1s must be from 0"},
		"too many":        {simulate.Arrivals{Rate: 1e9, For: time.Hour}, nil, "arrive: about 3600000000000 calls"},
		"infinitely many": {simulate.Arrivals{Rate: math.Inf(1), For: time.Hour}, nil, "arrive: about +Inf calls"},
	} {
		pattern := tracePattern()
		if tc.change != nil {
			tc.change(&pattern)
		}
		if _, err := tc.arrivals.Calls(pattern, traceLimits()); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
	if _, err := (simulate.Arrivals{}).Calls(tracePattern(), traceLimits()); !errors.Is(err, simulate.ErrNoCalls) {
		t.Errorf("nothing: %v", err)
	}
	other := []reservations.Limit{{Name: "openai", Meters: []reservations.Meter{reservations.PerSecond("searches", 1)}}}
	if _, err := good.Calls(tracePattern(), other); err == nil || !strings.Contains(err.Error(), `meter "searches"`) {
		t.Errorf("a meter of another kind: %v", err)
	}
}

// Doubled limits and one more key are valid limits that serve twice as much.
func TestVariants(t *testing.T) {
	t.Parallel()
	limits := []reservations.Limit{perSecond("tenant", 50, 5), perSecond("api", 10, 10)}
	calls := backlog(200, 0, charge("tenant", 1), charge("api", 1))
	r := run(t, limits, calls, simulate.Config{})
	ended := map[string]time.Duration{}
	for _, v := range simulate.Variants(limits, calls, r, 4) {
		ended[v.Name] = run(t, v.Limits, calls, simulate.Config{}).Ended
	}
	if r.Ended != 19*time.Second || len(ended) != 3 {
		t.Fatalf("done after %v; %v", r.Ended, ended)
	}
	for name, want := range map[string]time.Duration{
		"api doubled": 9 * time.Second, "one more key of api": 9 * time.Second, "tenant doubled": 19 * time.Second,
	} {
		if got := ended[name]; (got - want).Abs() > 300*time.Millisecond {
			t.Errorf("%s: done after %v, want %v", name, got, want)
		}
	}
}
