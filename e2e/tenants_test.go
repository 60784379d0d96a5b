package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Two tenants share one provider, which has a rate, tokens and a daily window. The large tenant has ten times the
// tasks and enqueues first.
const (
	tenantLarge  = "large"
	tenantSmall  = "small"
	tasksOfSmall = 50
	tasksOfLarge = 10 * tasksOfSmall
	// fair is by which factor the small tenant may take longer than with its share alone, because the shares together
	// exceed the provider's limit.
	fair = 1.5
)

// tenantChats returns n requests of a tenant in the OpenAI Batch input format.
func tenantChats(tenant string, n int) string {
	var b strings.Builder
	for i := 1; i <= n; i++ {
		fmt.Fprintf(&b,
			`{"custom_id":"%s%05d","method":"POST","url":"/v1/chat/completions","body":{"model":"gpt-4o-mini",`+
				`"messages":[{"role":"user","content":"Count to %d."}],"max_tokens":60,"user":%q,`+
				`"metadata":{"headway_task":"%[1]s%05[2]d"}}}`+"\n",
			tenant, i, i, tenant)
	}
	return b.String()
}

// share is the limit of a tenant: requests a second, and at once.
type share struct{ rate, capacity float64 }

// hold is the longest time from the decision of the tenant's limit to the call: the provider's limit, which comes
// next and is exact, may make the task hold.
const hold = 250 * time.Millisecond

// flag returns the share as the provider's flag, plus the requests that a hold may delay.
func (s share) flag(tenant string) string {
	return fmt.Sprintf("-tenant=%s=%g/%g", tenant, s.rate, s.capacity+s.rate*hold.Seconds())
}

// alone returns the duration of that many tasks at the share.
func (s share) alone(tasks int) time.Duration {
	return time.Duration((float64(tasks) - s.capacity) / s.rate * float64(time.Second))
}

// shared returns a world with both tenants. The share of the large one is in the file, and the share of the small one
// is an override of its key.
func shared(t *testing.T, s setting, large, small share) *world {
	t.Helper()
	s.others = fmt.Sprintf("  tenants: {meters: {requests: {rate: %g/s, capacity: %g}}}\n", large.rate, large.capacity)
	s.provider = append(s.provider, large.flag(tenantLarge), small.flag(tenantSmall))
	w := newWorld(t, s)
	w.worker(t, "limits", "set", "tenants.requests", fmt.Sprintf("%g/s", small.rate), "--capacity",
		fmt.Sprint(small.capacity), "--key", tenantSmall)
	w.start(t, fleet)
	w.awaitWorkers(t)
	return w
}

// runTenants enqueues the tasks of both, the large tenant's first, waits for them, and judges the figures.
func (w *world) runTenants(t *testing.T, small share) figures {
	t.Helper()
	w.enqueueWithin(t, "tenants:"+tenantLarge, tenantChats(tenantLarge, tasksOfLarge))
	w.enqueueWithin(t, "tenants:"+tenantSmall, tenantChats(tenantSmall, tasksOfSmall))
	w.awaitCompleted(t, tasksOfLarge+tasksOfSmall)
	w.wantNoRetries(t)
	f := w.finish(t)
	f.wantOnce(t, tasksOfLarge+tasksOfSmall)
	took, alone := f.Meters["tenant:"+tenantSmall].LastStart.Sub(f.FirstStart), small.alone(tasksOfSmall)
	t.Logf("the small tenant needed %.1f s, %.2f times what its share allows alone (%.1f s); all tasks needed %.1f s",
		took.Seconds(), took.Seconds()/alone.Seconds(), alone.Seconds(), f.LastStart.Sub(f.FirstStart).Seconds())
	if took > time.Duration(atMost(fair)*float64(alone)) {
		t.Errorf("the small tenant needed %v, wanted at most %g times %v", took, atMost(fair), alone)
	}
	return f
}

// All tasks wait for the provider's tokens.
//
//nolint:paralleltest // measures a limit: it has the machine for itself
func TestTenantsShareTokens(t *testing.T) {
	measures(t, 25*time.Second)
	// a call uses 45 tokens, so the provider allows 35.5 calls a second
	large, small := share{rate: 38, capacity: 8}, share{rate: 6, capacity: 2}
	w := shared(t, setting{
		limit: `{meters: {requests: {rate: 60/s, capacity: 20}, tokens: {rate: 1600/s, capacity: 1600}, requests_per_day: ` +
			`{rate: 1200/20s, window: "00:00"}}}`,
		provider: []string{
			"-requests-rate=60", "-requests-capacity=20", "-tokens-rate=1600", "-tokens-capacity=1600",
			"-window-requests=1200", "-window-period=20s", "-used-min=0.5", "-used-max=0.9", "-max-latency=200ms",
		},
	}, large, small)
	f := w.runTenants(t, small)
	f.wantUsed(t, f.Meters["tokens"].Utilization, 0.97)
}

// All tasks wait for the provider's daily window, which has 5 seconds here, so that several pass.
//
//nolint:paralleltest // measures a limit: it has the machine for itself
func TestTenantsShareTheDay(t *testing.T) {
	measures(t, 30*time.Second)
	const day = 5 * time.Second
	large, small := share{rate: 30, capacity: 6}, share{rate: 6, capacity: 2}
	w := shared(t, setting{
		limit: `{meters: {requests: {rate: 60/s, capacity: 10}, tokens: {rate: 8000/s, capacity: 8000}, requests_per_day: ` +
			`{rate: 150/5s, window: "00:00"}}}`,
		provider: []string{
			"-requests-rate=60", "-requests-capacity=10", "-tokens-rate=8000", "-tokens-capacity=8000",
			"-window-requests=150", "-window-period=" + day.String(),
		},
	}, large, small)
	pass(t, time.Until(time.Now().Truncate(day).Add(day))) // a day that begins in the middle can't be used up
	f := w.runTenants(t, small)
	f.wantUsed(t, f.Meters["window"].Utilization, 0.97)
}
