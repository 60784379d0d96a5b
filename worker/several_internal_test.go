package worker

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/headway-go/headway/reservations"
)

// rate is a limit whose meter "tokens" fills so fast, and has room for a second of it.
func rate(name string, perSecond, maxReserved float64) reservations.Limit {
	return reservations.Limit{Name: name, Meters: []reservations.Meter{
		{Name: "tokens", Rate: perSecond, Period: time.Second, Capacity: perSecond, MaxReserved: maxReserved},
	}}
}

// backlog is n tasks of a tenant that arrive at once, and charge each of the limits; "tenant" by the tenant's key, "model" by one of three.
func backlog(n int, tenant string, cost func() float64, limits ...string) (tasks []*virtual) {
	for i := range n {
		v := &virtual{tenant: tenant}
		n := cost()
		for _, name := range limits {
			c := reservations.Charge{Limit: name, Tokens: reservations.Tokens{"tokens": n}}
			switch name {
			case "tenant":
				c.Key = tenant
			case "model":
				c.Key = fmt.Sprintf("m%d", i%3)
			}
			v.charges = append(v.charges, c)
		}
		tasks = append(tasks, v)
	}
	return tasks
}

func one() float64 { return 1 }

// tenants have a backlog of n tasks each.
func tenants(n, count int, cost func() float64, limits ...string) (tasks []*virtual) {
	for i := range count {
		tasks = append(tasks, backlog(n, fmt.Sprintf("t%d", i), cost, limits...)...)
	}
	return tasks
}

// Tasks with two and three limits, whatever of them is saturated: few deliveries, the bottleneck used, the order kept, nothing leaked.
func TestSeveralLimitsInTheLongRun(t *testing.T) {
	t.Parallel()
	const free = reservations.Unlimited
	sizes := rand.New(rand.NewPCG(3, 4)) // the same each time
	mixed := func() float64 { return 0.2 + 2*sizes.Float64() }
	two := []reservations.Limit{rate("tenant", 10, free), rate("provider", 20, free)}
	three := []reservations.Limit{rate("tenant", 10, free), rate("model", 8, free), rate("provider", 20, free)}
	for name, c := range map[string]struct {
		s    several
		want figures // mean, most, lost and gap at most, util at least
	}{
		"shares that add up to the provider's": {
			several{limits: two, tasks: tenants(1000, 2, one, "tenant", "provider")},
			figures{mean: 2, most: 2, util: 0.99},
		},
		"shares of more than the provider has": {
			several{limits: two, tasks: tenants(400, 5, one, "tenant", "provider")},
			figures{mean: 3, most: 3, util: 0.99},
		},
		"tenant, model, provider": {
			several{limits: three, tasks: tenants(400, 5, one, "tenant", "model", "provider")},
			figures{mean: 4, most: 4, util: 0.99, lost: 2},
		},
		"charges of any size, a third used": {
			several{limits: three, tasks: tenants(2000, 5, mixed, "tenant", "model", "provider"), used: 0.33, run: 2 * time.Second, jitter: 5 * time.Millisecond},
			figures{mean: 4, most: 8, util: 0.97, lost: 3},
		},
		"bounded plans": {
			several{limits: []reservations.Limit{rate("tenant", 10, 50), rate("provider", 20, 100)}, tasks: tenants(400, 5, one, "tenant", "provider"), jitter: 50 * time.Millisecond},
			figures{mean: 5, most: 6, util: 0.99, lost: 1},
		},
		"everybody is away for a minute": {
			several{limits: two, tasks: tenants(400, 5, one, "tenant", "provider"), away: [2]time.Duration{20 * time.Second, 80 * time.Second}},
			figures{mean: 4, most: 4, util: 0.99, lost: 1},
		},
		"a block of ten seconds": {
			several{limits: two, tasks: tenants(400, 5, one, "tenant", "provider"), block: [2]time.Duration{20 * time.Second, 10 * time.Second}},
			figures{mean: 3, most: 3, util: 0.99},
		},
		"places and starts are lost": {
			several{limits: three, tasks: tenants(400, 5, one, "tenant", "model", "provider"), forget: 0.05, lose: 0.05},
			figures{mean: 4.5, most: 9, util: 0.93, lost: 100, gap: 2},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.s.t = t
			c.s.simulate()
			f := c.s.figures()
			t.Log(f)
			if f.mean > c.want.mean || f.most > c.want.most || f.util < c.want.util || f.lost > c.want.lost+0.1 || f.over > 1 || f.exact > 1+1e-6 && c.s.used == 0 || f.gap > c.want.gap+0.1 || f.leaked > 1e-6 {
				t.Errorf("got %v, want %v", f, c.want)
			}
		})
	}
}

// A tenant with a large backlog does not keep a small one from its share; reserved ahead or not.
func TestSmallTenantIsNotStarved(t *testing.T) {
	t.Parallel()
	limits := []reservations.Limit{rate("tenant", 15, reservations.Unlimited), rate("provider", 20, reservations.Unlimited)}
	both := func() []*virtual {
		return append(backlog(3000, "large", one, "tenant", "provider"), backlog(200, "small", one, "tenant", "provider")...)
	}
	s := several{t: t, limits: limits, tasks: both()}
	s.simulate()
	f := s.figures()
	t.Log(f, f.last["small"])
	if small := f.last["small"]; small > 21*time.Second || f.util < 0.97 || f.mean > 3.1 || f.most > 8 || f.over > 1 || f.leaked > 1e-6 {
		t.Errorf("%v; 200 tasks of a tenant with 15/s, of which it can have 10/s, took %v", f, small)
	}
	reserved := several{t: t, limits: limits, tasks: both()}
	for _, v := range reserved.tasks {
		v.reserved = true
	}
	reserved.simulate()
	f = reserved.figures()
	t.Log(f, f.last["small"])
	if small := f.last["small"]; small > 21*time.Second || f.util < 0.97 || f.mean > 2.1 || f.most > 8 || f.over > 1 || f.leaked > 1e-6 {
		t.Errorf("reserved ahead: %v; the small tenant took %v", f, small)
	}
}

// Why a start is given back by Yield: to settle it as unused would let the whole backlog of the tenant through to the provider's line.
func TestCancelledStartsWouldFloodTheNextLine(t *testing.T) {
	t.Parallel()
	s := several{
		t: t, cancel: true, tasks: tenants(400, 5, one, "tenant", "provider"),
		limits: []reservations.Limit{rate("tenant", 10, reservations.Unlimited), rate("provider", 20, reservations.Unlimited)},
	}
	s.simulate()
	f := s.figures()
	t.Log(f)
	if f.most <= 4 || f.lost < 50 {
		t.Errorf("%v: Yield is not needed any more", f)
	}
}
