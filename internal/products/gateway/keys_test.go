package gateway_test

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/api/estimates"
	"github.com/headway-go/headway/internal/documents/keys"
	"github.com/headway-go/headway/internal/products/gateway"
	"github.com/headway-go/headway/reservations"
)

// A key names its tenant, the models that its calls may use, and what they take.
func TestKeys(t *testing.T) {
	t.Parallel()
	known := callers{
		"hw_all":    {Tenant: "a"},
		"hw_tenant": {Tenant: "b", Limits: []string{"tenants:b"}, Models: []string{"gpt-4o*", "m"}},
		"hw_gone":   {Tenant: "c", Limits: []string{"gone"}},
		"hw_poor":   {Tenant: "d", Budget: &keys.Budget{Amount: 1, Period: time.Hour, Unit: "usd"}},
	}
	tenants := reservations.Limit{Name: "tenants", Meters: []reservations.Meter{
		{Name: "requests", Rate: 1, Period: 1000 * time.Hour, Capacity: 5},
	}}
	b := setup(t, good, func(c *gateway.Config) { c.Keys, c.Limit = known, "pool" }, pool(), tenants)
	for name, c := range map[string]struct {
		header []string
		model  string
		path   string
		status int
		text   string
	}{
		"no key":             {status: 401, text: "invalid_api_key"},
		"another key":        {header: []string{"Authorization", "Bearer hw_else"}, status: 401, text: "invalid_api_key"},
		"a key":              {header: []string{"Authorization", "Bearer hw_all"}, status: 200},
		"as of Azure":        {header: []string{"Api-Key", "hw_all"}, status: 200},
		"as of Anthropic":    {header: []string{"X-Api-Key", "hw_all"}, path: "/v1/messages", status: 200},
		"refused, Anthropic": {path: "/v1/messages", status: 401, text: `"type":"authentication_error"`},
		"a model":            {header: []string{"Authorization", "Bearer hw_tenant"}, model: "gpt-4o-mini", status: 200},
		"another model": {
			header: []string{"Authorization", "Bearer hw_tenant"}, model: "o1", status: 403, text: "model_not_allowed",
		},
		"a limit that has gone": {
			header: []string{"Authorization", "Bearer hw_gone"}, status: 500, text: "gateway_settings",
		},
		"no price": {header: []string{"Authorization", "Bearer hw_poor"}, status: 403, text: "model_without_price"},
	} {
		body, path := hello, c.path
		if c.model != "" {
			body = strings.Replace(hello, `"m"`, `"`+c.model+`"`, 1)
		}
		if path == "" {
			path = "/v1/chat/completions"
		}
		status, text := b.post(path, body, c.header...)
		if status != c.status || !strings.Contains(text, c.text) {
			t.Errorf("%s: %d: %s", name, status, text)
		}
	}
	b.settled()
	v, err := b.limiter.View(t.Context(), "tenants", "b")
	if err != nil || v.Meters[0].Level < 3.9 || v.Meters[0].Level > 4.1 {
		t.Errorf("%+v, %v", v, err)
	}
}

// A gateway that does not know which limit is the provider's does not take a key's own limit for it.
func TestAKeyDoesNotPassTheLimitOfAProviderBy(t *testing.T) {
	t.Parallel()
	known := callers{"hw_tenant": {Tenant: "b", Limits: []string{"tenants:b"}}}
	b := setup(t, good, func(c *gateway.Config) { c.Keys = known }, pool(),
		reservations.Limit{Name: "tenants", Meters: []reservations.Meter{reservations.PerMinute("requests", 500)}})
	status, text := b.post("/v1/chat/completions", hello, "Authorization", "Bearer hw_tenant")
	if status != http.StatusBadRequest || !strings.Contains(text, "model_not_found") ||
		!strings.Contains(text, "--limit") {
		t.Errorf("%d: %s", status, text)
	}
}

// A thousand calls at once spend no cent more than the budget of their key.
func TestBudget(t *testing.T) {
	t.Parallel()
	const cost, used = 100, 40 // tokens of an answer: at most, and really; a cent for each hundred
	budget := &keys.Budget{Amount: 1, Period: 240 * time.Hour, Unit: "USD"}
	known := callers{"hw_poor": {Tenant: "d", ID: "k", Budget: budget}}
	limit := reservations.Limit{Name: "pool", Meters: []reservations.Meter{reservations.PerSecond("requests", 1000)}}
	var mu sync.Mutex
	spent := 0. // in the provider, with the calls that run
	provider := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		mu.Lock()
		spent += used * 100 / 1e6
		mu.Unlock()
		answer(w, isJSON, `{"usage":{"prompt_tokens":0,"completion_tokens":40,"total_tokens":40}}`)
	}
	play(t, provider, func(c *gateway.Config) {
		c.Keys, c.Prices = known, map[string]estimates.Price{"m": {Output: 100}}
	}, func(w *world, g *gate) {
		t := w.t
		all := make([]<-chan reply, 400)
		for i := range all {
			all[i] = g.send(t.Context(), "/v1/chat/completions", hello, "Authorization", "Bearer hw_poor")
		}
		done := 0
		for _, one := range all {
			switch a := <-one; {
			case a.err == nil && a.StatusCode == http.StatusOK:
				done++
			case a.err != nil || a.StatusCode != http.StatusTooManyRequests || !strings.Contains(a.text, "insufficient_quota") ||
				a.Header.Get("X-Should-Retry") != "false":
				t.Errorf("%v, %v: %s", a.err, a.Response, a.text)
			}
		}
		if spent > 1.001 || done < 100 {
			t.Errorf("%d calls have spent %v of 1", done, spent)
		}
		t.Logf("%d calls have spent %.4f of 1", done, spent)
		w.empty()
	}, limit)
}
