package config_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headway-go/headway/internal/setup/config"
)

func TestProviders(t *testing.T) {
	t.Parallel()
	c, err := config.Parse([]byte(`
limits: {openai: {in_flight: 1}, small: {in_flight: 1}, large: {in_flight: 1}, web: {in_flight: 1}}
providers:
  openai: {base_url: "https://api.openai.com/v1", key: OPENAI_API_KEY, models: [gpt-4o-mini]}
  local: {base_url: "http://127.0.0.1:11434/v1", limits: [small, large]}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := config.Providers{
		{Name: "local", BaseURL: "http://127.0.0.1:11434/v1", Limits: []string{"small", "large"}},
		{
			Name: "openai", BaseURL: "https://api.openai.com/v1", Key: "OPENAI_API_KEY", Limits: []string{"openai"},
			Models: []string{"gpt-4o-mini"},
		},
	}
	if diff := cmp.Diff(want, c.Providers); diff != "" {
		t.Error(diff)
	}
	for limit, provider := range map[string]string{
		"openai": "openai", "small": "local", "large": "local", "web": "", "": "",
	} {
		p, known := c.Providers.For(limit)
		if p.Name != provider || known != (provider != "") || (c.Providers.Check(limit) == nil) != known {
			t.Errorf("limit %q: provider %q, %v, %v", limit, p.Name, known, c.Providers.Check(limit))
		}
	}
	if limit, known := c.Providers.LimitOf("gpt-4o-mini"); limit != "openai" || !known {
		t.Errorf("limit %q, %v", limit, known)
	}
	if limit, known := c.Providers.LimitOf(""); known {
		t.Errorf("limit %q", limit)
	}
	if err := (config.Providers{}).Check("any"); err != nil {
		t.Error(err)
	}
}

// Each fault names its field, and no fault shows an address or a key.
func TestFaultsOfProviders(t *testing.T) {
	t.Parallel()
	_, err := config.Parse([]byte(`
limits: {a: {in_flight: 1}, b: {in_flight: 1}}
providers:
  a: {base_url: "https://u:secret@host/v1", key: sk-secret, models: [m, n], sync: x}
  b: {base_url: "ftp://secret", limits: [b, a], models: [n]}
  c: {limits: [none], key: secret}
  "d e": {base_url: "https://h/v1?key=secret", limits: [b], url: x}
recurring: {x: {every: 1m, task: {type: "llm:call", payload: {limit: none}}}}
`))
	if err == nil {
		t.Fatal("no error")
	}
	for _, fault := range []string{
		"providers.a.base_url: must hold no user", "providers.a.key: must be the name of an environment variable",
		"providers.b.base_url: must look like", `providers.b.limits: limit "a" belongs to provider a`,
		"providers.b.models: need one limit", `providers.b.models: model "n" belongs to provider a`,
		"providers.c.base_url: is missing", `providers.c.limits: there is no limit "none"`, "providers.c.key: must",
		"providers.d e: a name has", `providers.a.sync: "x" must be`, "providers.d e.base_url: must hold no",
		"there is no setting named url",
	} {
		if !strings.Contains(err.Error(), fault) {
			t.Errorf("%q is missing in:\n%v", fault, err)
		}
	}
	if strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
}

// A recurring call without a provider would go back to the queue for ever.
func TestRecurringCallsHaveProviders(t *testing.T) {
	t.Parallel()
	text := func(limit string) []byte {
		return []byte(`
limits: {a: {in_flight: 1}, web: {in_flight: 1}}
providers: {a: {base_url: "https://host/v1"}}
recurring:
  x:
    every: 1m
    task:
      type: llm:call
      payload: {limit: ` + limit + `, request: {model: m, messages: [{role: user, content: hi}]}}
`)
	}
	if _, err := config.Parse(text("a")); err != nil {
		t.Error(err)
	}
	if _, err := config.Parse(text("web")); err == nil || !strings.Contains(err.Error(), `no provider has limit "web"`) {
		t.Error(err)
	}
}
