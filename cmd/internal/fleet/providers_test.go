package fleet

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/products/embedded"
	"github.com/headway-go/headway/internal/products/provider"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/setup/config"
	"github.com/headway-go/headway/internal/setup/connect"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/tasks/llm"
)

// startKeyed starts a provider that takes one Authorization header only, and repeats it in an error
// for each moderation.
func startKeyed(t *testing.T, quota provider.Quota, authorization string) (*provider.Server, string) {
	t.Helper()
	judge, err := provider.New(provider.Config{
		Requests: quota, MinLatency: -1, Slack: 300 * time.Millisecond, // the machine may stall for that long
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch got := r.Header.Get("Authorization"); {
		case got != authorization:
			t.Errorf("%s with the key %q, wanted %q", r.URL, got, authorization)
			w.WriteHeader(http.StatusUnauthorized)
		case r.URL.Path == "/v1/moderations":
			http.Error(w, `{"error":{"message":"no `+got+`"}}`, http.StatusBadRequest)
		default:
			r.Header.Set("Authorization", "Bearer any") // the judge wants one
			judge.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { _ = judge.Close() })
	return judge, server.URL + "/v1"
}

// One worker serves two providers: each call reaches the provider of its last limit, with that key alone, and no
// provider counts a violation. Calls of a provider without its key go back to the queue.
func TestOneWorkerServesSeveralProviders(t *testing.T) {
	t.Parallel()
	redis, err := embedded.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(redis.Close)
	west, westURL := startKeyed(t, provider.Quota{Rate: 20, Capacity: 2}, "Bearer sk-west-hidden")
	east, eastURL := startKeyed(t, provider.Quota{Rate: 30, Capacity: 2}, "")
	file := filepath.Join(t.TempDir(), "headway.yaml")
	if err = os.WriteFile(file, fmt.Appendf(nil, `
limits:
  tenants: {meters: {requests: 100/s}}
  gold: {meters: {requests: {rate: 20/s, capacity: 2}}}
  east: {meters: {requests: {rate: 30/s, capacity: 2}}}
  south: {meters: {requests: 100/s}}
providers:
  west: {base_url: %q, key: WEST_KEY, limits: [gold]}
  east: {base_url: %q}
  south: {base_url: "http://127.0.0.1:1/v1", key: SOUTH_KEY}
`, westURL, eastURL), 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"REDIS_URL": redis.URL(), "WEST_KEY": "sk-west-hidden", "OPENAI_API_KEY": "sk-other"}
	d := &devRun{out: &written{}}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() {
		ended <- cli.Run(ctx, rootCommand, []string{"worker", "--config", file}, cli.Environment{
			Getenv: func(name string) string { return env[name] }, Out: d.out, Err: d.out,
		})
	}()
	t.Cleanup(func() { cancel(); <-ended })

	client, err := connect.Redis(t.Context(), func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	s, err := scheduler.New(client, nil, scheduler.Config{})
	if err != nil {
		t.Fatal(err)
	}
	enqueue := func(call llm.Call, id string) {
		if _, err := s.Enqueue(t.Context(), call, tasks.Options{ID: id, MaxRetry: tasks.NoRetry}); err != nil {
			t.Fatal(err)
		}
	}
	const each = 40
	for i := range each {
		enqueue(newCall(t, "tenants", "gold"), fmt.Sprintf("gold-%d", i))
		enqueue(newCall(t, "east"), fmt.Sprintf("east-%d", i))
	}
	leaks := newCall(t, "gold")
	leaks.Endpoint, leaks.Request = llm.EndpointModerations, []byte(`{"input":"hi"}`)
	enqueue(leaks, "leaks")
	enqueue(newCall(t, "south"), "south")
	enqueue(newCall(t, "tenants"), "nowhere")
	task := func(id string) *asynq.TaskInfo {
		info, err := asynq.NewInspectorFromRedisClient(client).GetTaskInfo("default", id)
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	d.until(t, func() bool {
		return west.Report().Accepted == each && east.Report().Accepted == each &&
			task("leaks").State == asynq.TaskStateArchived && task("south").LastErr != "" && task("nowhere").LastErr != ""
	})
	for name, r := range map[string]provider.Report{"west": west.Report(), "east": east.Report()} {
		if r.Requests != each || r.Violations != 0 {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if text := task("leaks").LastErr; !strings.Contains(text, "no Bearer ***") {
		t.Error(text)
	}
	for id, missing := range map[string]string{"south": "SOUTH_KEY", "nowhere": `provider for limit "tenants"`} {
		if info := task(id); !strings.HasSuffix(info.LastErr, "has no "+missing) || info.State == asynq.TaskStateArchived {
			t.Errorf("%+v", info)
		}
	}
	if log := d.out.String(); !strings.Contains(log, "SOUTH_KEY is not set") || strings.Contains(log, "hidden") {
		t.Error(log)
	}
}

// newCall returns a chat that takes one request from each limit.
func newCall(t *testing.T, limits ...string) (call llm.Call) {
	t.Helper()
	call.Request = []byte(`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`)
	for _, limit := range limits {
		call.Taken = append(call.Taken, reservations.Charge{Limit: limit, Tokens: reservations.Tokens{"requests": 1}})
	}
	return call
}

// A worker needs the key of one provider at least.
func TestWorkerWithoutAnyKey(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "headway.yaml")
	text := "limits: {a: {in_flight: 1}, b: {in_flight: 1}}\nproviders: {a: {base_url: \"http://h/v1\", key: A_KEY}, " +
		"b: {base_url: \"http://h/v1\", key: B_KEY}}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"OPENAI_API_KEY": "sk-other", "REDIS_URL": "redis://127.0.0.1:1"}
	if code, _, errs := command(t, env, "worker", "--config", file); code != cli.ExitUsage ||
		!strings.Contains(errs, "A_KEY or B_KEY is not set") {
		t.Errorf("exit %d: %s", code, errs)
	}
	env["B_KEY"] = "k"
	if code, _, errs := command(t, env, "worker", "--config", file); code != cli.ExitUnavailable {
		t.Errorf("exit %d: %s", code, errs)
	}
}

// The pages hide the keys of all providers.
func TestPagesHideKeysOfProviders(t *testing.T) {
	t.Parallel()
	env := map[string]string{
		"WEST_KEY": "sk-west-hidden", "OPENAI_API_KEY": "sk-other-hidden", "HOME": t.TempDir(),
		"REDIS_URL": "redis://:redis-hidden@h:6379/0", "MONGODB_URI": "mongodb://u:mongo%2Dhidden@a:1,b:2,c/?appName=a@b",
	}
	secrets := secretsOf(t.Context(), cli.Environment{Getenv: func(name string) string { return env[name] }},
		config.Config{Providers: config.Providers{{Name: "west", Key: "WEST_KEY"}, {Name: "east"}}})
	const shown = "sk-west-hidden sk-other-hidden redis-hidden mongo-hidden mongo%2Dhidden"
	if text := secrets.Text(shown); text != "*** *** *** *** ***" {
		t.Error(text)
	}
}

// In `headway dev` each provider is a server on loopback with the limits of that provider.
func TestDevStandsInForProviders(t *testing.T) {
	t.Parallel()
	c := config.Config{
		Limits: []reservations.Limit{
			{Name: "a", Meters: []reservations.Meter{reservations.PerMinute("requests", 1)}},
			{Name: "b", Meters: []reservations.Meter{reservations.PerMinute("requests", 2)}},
		},
		Providers: config.Providers{{Name: "one", BaseURL: "https://host/v1", Key: "KEY", Limits: []string{"b"}}},
	}
	p, err := startDevProvider(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	over := runSettings{standIn: p.url}.over(c).Providers[0]
	if over.BaseURL != p.url("one") || over.Key != "OPENAI_API_KEY" || c.Providers[0].Key != "KEY" {
		t.Errorf("%+v of %+v", over, c.Providers)
	}
	for name, want := range map[string][]int{"": {200, 429}, "one": {200, 200, 429}, "none": {404}} {
		client, err := llm.NewClient(llm.Config{BaseURL: p.url(name), APIKey: "k"})
		if err != nil {
			t.Fatal(err)
		}
		for i, status := range want {
			_, err := client.Run(t.Context(), newCall(t, "b"), nil)
			if failed, ok := errors.AsType[*llm.Error](err); ok != (status != 200) || ok && failed.StatusCode != status {
				t.Errorf("call %d of %q: %v", i, name, err)
			}
		}
		client.Close()
	}
}
