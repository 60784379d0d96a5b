package fleet

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/headway-go/headway/internal/products/provider"
	"github.com/headway-go/headway/internal/setup/cli"
)

// Check asks the provider for its models: an address without a listener, an address without its path and a refused key
// are faults.
func TestCheckAsksTheProvider(t *testing.T) {
	t.Parallel()
	good, err := provider.Start(provider.Config{MinLatency: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = good.Close() })
	server := func(status int, body string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer sk-hidden" || r.URL.Path != "/v1/models" {
				t.Errorf("%s %v", r.URL, r.Header)
			}
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}))
		t.Cleanup(s.Close)
		return s.URL + "/v1"
	}
	file := filepath.Join(t.TempDir(), "headway.yaml")
	if err := os.WriteFile(file, []byte("limits: {a: {meters: {r: 5/s}}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	redis := "redis://" + miniredis.RunT(t).Addr()
	for name, test := range map[string]struct{ base, want string }{
		"good":     {good.URL(), "ok     provider: " + good.URL() + " answers, models 1\n"},
		"dead":     {"http://127.0.0.1:1/v1", "FAULT  provider: OPENAI_BASE_URL: http://127.0.0.1:1/v1 is not reachable: "},
		"no path":  {strings.TrimSuffix(good.URL(), "/v1"), "lacks its path: set it to " + good.URL() + "\n"},
		"key":      {server(http.StatusUnauthorized, ""), "FAULT  provider: OPENAI_API_KEY: "},
		"page":     {server(http.StatusOK, "<html>"), "is no list of models"},
		"overload": {server(http.StatusServiceUnavailable, ""), "answers 503: the key could not be checked"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := map[string]string{"REDIS_URL": redis, "OPENAI_API_KEY": "sk-hidden", "OPENAI_BASE_URL": test.base}
			_, out, errs := command(t, env, "check", "--config", file)
			if !strings.Contains(out+errs, test.want) || strings.Contains(out+errs, "sk-hidden") {
				t.Errorf("%s%s", out, errs)
			}
		})
	}
	env := map[string]string{"REDIS_URL": redis, "OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}
	if _, out, errs := command(t, env, "check", "--config", file, "--skip-provider"); strings.Contains(errs, "provider") {
		t.Errorf("%s%s", out, errs)
	}
}

// Redis that refuses a login is not out of reach.
func TestCheckTellsRefusedLogins(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	server.RequireAuth("right")
	for login, want := range map[string]string{
		"":        "REDIS_URL: " + server.Addr() + " refuses the login: it needs a password",
		":wrong@": "REDIS_URL: " + server.Addr() + " refuses the login: wrong user or password",
	} {
		env := map[string]string{"REDIS_URL": "redis://" + login + server.Addr()}
		code, out, errs := command(t, env, "check", "--config", "../../../headway.yaml")
		if code != cli.ExitUsage || !strings.Contains(errs, want) || strings.Contains(errs, "docker compose") {
			t.Errorf("exit %d: %s%s", code, out, errs)
		}
	}
}

func TestCheckShowsAllFaultsOfAFile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		env, server := memory(t)
		server.Refuse()
		for text, wants := range map[string][]string{
			"":          {"the file is empty"},
			"# nothing": {"the file is empty"},
			"recurring:\n  a:\n    cron: */5 * * * *\n": {`line 3: quote the value, as in cron: "*/5 * * * *"`},
			`
limits: {a: {meters: {r: 0/m, q: {rate: 1/m, headroom: 5}}}}
concurrency: -1
queues: {default: 0}
estimates: {learn: [b], quantile: 2}
recurring: {x: {cron: "61 * * * *", task: {type: nope}}}
http: {allow_hosts: ["http://x"]}
`: {
				"limits.a.meters.r", "limits.a.meters.q", "concurrency", "queues", "estimates.learn", "estimates.quantile",
				"recurring.x.cron", "recurring.x.task", "http.allow_hosts",
			},
		} {
			file := filepath.Join(t.TempDir(), "headway.yaml")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, _, errs := command(t, env, "check", "--config", file)
			for _, want := range wants {
				if !strings.Contains(errs, want) {
					t.Errorf("%q is missing in %s", want, errs)
				}
			}
		}
		<-time.After(time.Minute) // go-redis dials in the background until then
	})
}

// Check shows how tasks share a limit and what recurs, and warns of a limit that no live worker has.
func TestCheckOfSharesAndWorkers(t *testing.T) {
	t.Parallel()
	env := vendorFleet(t)
	file := filepath.Join(t.TempDir(), "headway.yaml")
	if err := os.WriteFile(file, []byte(`
limits:
  vendor: {meters: {requests: {rate: 100/h, capacity: 1}}}
  other: {priorities: {high: 9, low: 1}, weights: {acme: 2.5}, meters: {requests: 5/s}}
recurring:
  hi: {every: 1h, task: {type: "llm:call", payload: {limit: other, request: {model: m, max_tokens: 5,
    messages: [{role: user, content: hi}]}}}}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	_, out, errs := command(t, env, "check", "--config", file, "--skip-provider")
	for _, want := range []string{
		"priorities high 9, low 1, weights acme 2.5", "recurring hi: @every 1h",
		"warning: no live worker has limit other: its tasks wait for one that does",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in:\n%s%s", want, out, errs)
		}
	}
	if strings.Contains(out, "no live worker has limit vendor") {
		t.Error(out)
	}
}
