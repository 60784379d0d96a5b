package fleets_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/headway-go/headway/headwaytest"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
)

// One of ten tenants floods the queue. Each of the others has a tenth of the limit, uses 40 % of that, and starts its
// tasks within a second.
func TestOneOfTenTenantsFloods(t *testing.T) {
	api := headwaytest.Provider{Latency: headwaytest.Between(50*time.Millisecond, 200*time.Millisecond)}
	shared := limit(perSecond(30, 6))
	shared.Weights = map[string]float64{"tenant0": 1}
	in(t, world{limits: []reservations.Limit{shared}, provider: api}, func(f *fleet) {
		const flood, quiet, others = 400, 200, 9
		f.start(size)
		f.Run(3 * time.Second)
		var times []time.Duration
		for n := range quiet {
			times = append(times, time.Duration(n)*time.Second*10/12/others)
		}
		f.Replay(times, func(n int) tasks.Args {
			return call{Series: "quiet", N: n, Flow: fmt.Sprintf("tenant%d", n%others)}
		})
		f.Run(time.Second)
		f.Backlog(flood, func(n int) tasks.Args { return call{Series: "flood", N: n, Flow: "flood"} })
		f.Run(times[quiet-1] - time.Second)
		if n := f.Report().Left; n < 30 {
			t.Errorf("the flood has ended before the others: %d tasks are left", n)
		}
		r := f.end(flood + quiet)
		f.wantOnce()
		f.wantUse(r, .98)
		worst := time.Duration(0)
		for flow, wait := range r.Flows {
			if strings.HasPrefix(flow, "tenant") {
				worst = max(worst, wait.Max)
			}
		}
		t.Logf("the longest wait of another tenant is %v", worst)
		if len(r.Flows) != 1+others || worst > time.Second {
			t.Errorf("a task of another tenant waited for %v: %v", worst, r)
		}
	})
}

// The large tenant has ten times the tasks of the small one, and enqueues first. Both share one API.
const (
	ofSmall = 30
	ofLarge = 10 * ofSmall
	// fair is by which factor the small tenant may take longer than with its share alone. The shares together
	// exceed the limit of the API.
	fair = 1.3
)

// share is the limit of a tenant: requests a second, and at once.
type share struct{ rate, capacity float64 }

// shareAPI runs both tenants to their end. The share of the small one is an override of its key.
func (f *fleet) shareAPI(small share, args func(call) call) headwaytest.Report {
	f.t.Helper()
	f.override(reservations.Override{
		Limit: "tenants", Meter: "requests", Key: "small", Rate: small.rate, Period: time.Second, Capacity: small.capacity,
	})
	f.start(size)
	f.Backlog(ofLarge, func(n int) tasks.Args { return args(call{Series: "large", N: n, Tenant: "large"}) })
	f.Backlog(ofSmall, func(n int) tasks.Args { return args(call{Series: "small", N: n, Tenant: "small"}) })
	r := f.end(ofLarge + ofSmall)
	f.wantOnce()
	var began, last time.Time
	smalls := 0
	for _, m := range f.made() {
		if began.IsZero() {
			began = m.at
		}
		if strings.HasPrefix(m.task, "small") {
			smalls, last = smalls+1, m.at
		}
	}
	took, alone := last.Sub(began).Seconds(), (ofSmall-small.capacity)/small.rate
	f.t.Logf("the small tenant needed %.2f s, alone it is %.2f s", took, alone)
	if took < .99*alone || took > fair*alone {
		f.t.Errorf("the small tenant needed %.2f s, and with its share alone %.2f s", took, alone)
	}
	return r
}

// tenantLimits returns the limit of tenants, with the share of the large one, and that of the API.
func tenantLimits(api reservations.Limit, large share) []reservations.Limit {
	return []reservations.Limit{
		{Name: "tenants", Meters: []reservations.Meter{perSecond(large.rate, large.capacity)}}, api,
	}
}

// All tasks wait for the tokens of the API.
func TestTenantsShareTokens(t *testing.T) {
	large, small := share{rate: 19, capacity: 8}, share{rate: 3, capacity: 2}
	api := limit(perSecond(30, 20),
		reservations.Meter{Name: "tokens", Rate: 800, Period: time.Second, Capacity: 800},
		reservations.Meter{Name: "day", Kind: reservations.KindWindow, Rate: 1200, Period: 20 * time.Second})
	in(t, world{
		limits: tenantLimits(api, large), provider: headwaytest.Provider{
			Latency: headwaytest.Between(50*time.Millisecond, 200*time.Millisecond),
		},
	}, func(f *fleet) {
		f.countTenants(large)
		r := f.shareAPI(small, func(c call) call { c.Day, c.Tokens, c.Used = true, 60, float64(30+c.N*7%25); return c })
		f.wantUse(r, .99)
	})
}

// All tasks wait for the daily window of the API, which has 5 seconds here: several pass.
func TestTenantsShareTheDay(t *testing.T) {
	large, small := share{rate: 15, capacity: 6}, share{rate: 3, capacity: 2}
	api := limit(perSecond(30, 10),
		reservations.Meter{Name: "day", Kind: reservations.KindWindow, Rate: 75, Period: 5 * time.Second})
	in(t, world{limits: tenantLimits(api, large), provider: usual}, func(f *fleet) {
		f.countTenants(large)
		r := f.shareAPI(small, func(c call) call { c.Day = true; return c })
		f.wantUse(r, .99)
	})
}

// countTenants has an API count the calls of each tenant. A task holds for the API after the limit of its tenant let it
// start, so its call may come later by that.
func (f *fleet) countTenants(large share) {
	f.tenants = f.Provider("tenants", headwaytest.Provider{
		Meters: []reservations.Meter{perSecond(large.rate, large.capacity)}, Slack: hold,
	})
}

// A tenant gives each of its 200 tasks a flow of its own, or a batch. The 15 tasks of another tenant share the API with
// it half and half: 35 starts are enough for them. Before, there were 215.
func TestATenantOfManyFlows(t *testing.T) {
	const many, few = 200, 15
	limits := tenantLimits(limit(perSecond(10, 5)), share{rate: 1000, capacity: 1000})
	in(t, world{limits: limits, provider: usual}, func(f *fleet) {
		f.Backlog(many, func(n int) tasks.Args {
			return call{Series: "many", N: n, Tenant: "many", Flow: fmt.Sprint("flow", n)}
		})
		f.Backlog(few, func(n int) tasks.Args { return call{Series: "few", N: n, Tenant: "few"} })
		f.start(size)
		f.end(many + few)
		f.wantOnce()
		last := 0
		for i, m := range f.made() {
			if strings.HasPrefix(m.task, "few") {
				last = i + 1
			}
		}
		t.Logf("the last of %d tasks is start number %d", few, last)
		if last > 35 {
			t.Errorf("%d starts until the last of %d tasks", last, few)
		}
	})
}

// The flows of a tenant share its part of the API: a task of a flow that comes late does not wait behind the others of
// its tenant.
func TestFlowsShareTheirTenant(t *testing.T) {
	const many, late = 100, 5
	limits := tenantLimits(limit(perSecond(10, 5)), share{rate: 1000, capacity: 1000})
	in(t, world{limits: limits, provider: usual}, func(f *fleet) {
		for _, tenant := range []string{"a", "b"} {
			f.Backlog(many, func(n int) tasks.Args { return call{Series: tenant, N: n, Tenant: tenant, Flow: "large"} })
		}
		f.Backlog(late, func(n int) tasks.Args { return call{Series: "late", N: n, Tenant: "a", Flow: "small"} })
		f.start(size)
		f.end(2*many + late)
		first := map[string]int{}
		last := 0
		for i, m := range f.made() {
			first[m.task[:1]]++
			if strings.HasPrefix(m.task, "late") {
				last = i + 1
				if a, b := first["a"]+first["l"], first["b"]; max(a-b, b-a) > 3 {
					t.Errorf("after %d starts, tenant a has %d and tenant b %d", last, a, b)
				}
			}
		}
		if last > 4*late+5 {
			t.Errorf("%d starts until the last of %d late tasks", last, late)
		}
	})
}

// A tenant names a priority that is for another one. It counts for the lowest, so both share the API half and half.
func TestAPriorityOfAnotherTenant(t *testing.T) {
	shared := limit(perSecond(10, 5))
	shared.Priorities = map[string]float64{"fast": 100, "slow": 1}
	shared.Allow = map[string][]string{"fast": {"vip"}}
	limits := tenantLimits(shared, share{rate: 1000, capacity: 1000})
	in(t, world{limits: limits, provider: usual}, func(f *fleet) {
		const each = 50
		for _, tenant := range []string{"pushy", "quiet"} {
			f.Backlog(each, func(n int) tasks.Args {
				priority := map[string]string{"pushy": "fast"}[tenant]
				return prior{call: call{Series: tenant, N: n, Tenant: tenant}, Priority: priority}
			})
		}
		f.Workers(size, func(w *worker.Worker) {
			worker.Handle(w, func(_ context.Context, job *worker.Job[prior]) error {
				m, _ := f.begin(w, job.ID, job.Attempt)
				f.finish(m, nil)
				return nil
			})
		})
		f.end(2 * each)
		pushy := 0
		for _, m := range f.made()[:each] {
			if strings.HasPrefix(m.task, "pushy") {
				pushy++
			}
		}
		if pushy > each/2+3 {
			t.Errorf("%d of the first %d starts are of the tenant that names the priority", pushy, each)
		}
	})
}

// prior is a call that names a priority.
type prior struct {
	call

	Priority string `json:"priority,omitempty"`
}

func (p prior) Charges() []reservations.Charge {
	charges := p.call.Charges()
	charges[len(charges)-1].Priority = p.Priority
	return charges
}
