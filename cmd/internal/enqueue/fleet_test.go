package enqueue

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/calls/pause"
	"github.com/headway-go/headway/internal/documents/batches"
	"github.com/headway-go/headway/internal/products/chat"
	"github.com/headway-go/headway/internal/products/provider"
	"github.com/headway-go/headway/internal/products/record"
	"github.com/headway-go/headway/internal/setup/config"
	"github.com/headway-go/headway/internal/setup/connect"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks/llm"
	"github.com/headway-go/headway/tasks/web"
	"github.com/headway-go/headway/worker"
)

// world is the environment that commands and workers share in a test.
type world struct {
	redis  *miniredis.Miniredis
	env    map[string]string
	config string
	judge  *provider.Server
}

// requestsAndTokens are limits that the provider enforces too.
const requestsAndTokens = `
limits:
  openai: {meters: {requests: {rate: 100/s, capacity: 20}, tokens: {rate: 20000/s, capacity: 5000}}}
prices: {m: {input: 1000, output: 2000}}
`

func newWorld(t *testing.T) *world {
	t.Helper()
	server, env := environment(t)
	judge, err := provider.Start(provider.Config{
		Requests: provider.Quota{Rate: 100, Capacity: 20}, Tokens: provider.Quota{Rate: 20000, Capacity: 5000},
		MinLatency: time.Millisecond, MaxLatency: 20 * time.Millisecond,
		Slack: 500 * time.Millisecond, // a busy machine delays calls; ./e2e judges exactly
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = judge.Close() })
	return &world{redis: server, env: env, config: write(t, "headway.yaml", requestsAndTokens), judge: judge}
}

func (w *world) call(t *testing.T, args ...string) call {
	t.Helper()
	return callIn(t.Context(), w.redis, w.env, "", append(args, "--config", w.config)...)
}

func (w *world) getenv(name string) string { return w.env[name] }

// store returns the store of the batches.
func (w *world) store(t *testing.T) *batches.Store {
	t.Helper()
	buckets, err := connect.Mongo(t.Context(), w.getenv, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = buckets.Close(context.WithoutCancel(t.Context())) })
	store, err := buckets.Batches(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// work serves the queue like `headway worker`, until stop is called or the test ends. Calls go through upstream if it
// is not nil.
func (w *world) work(t *testing.T, upstream http.RoundTripper) (stop func()) {
	t.Helper()
	c, err := config.Load(w.config)
	if err != nil {
		t.Fatal(err)
	}
	buckets, err := connect.Mongo(t.Context(), w.getenv, nil)
	if err != nil {
		t.Fatal(err)
	}
	store, err := buckets.Batches(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	limiter, err := reservations.New(buckets, c.Limits, reservations.Config{})
	if err != nil {
		t.Fatal(err)
	}
	queue, err := connect.Redis(t.Context(), w.getenv)
	if err != nil {
		t.Fatal(err)
	}
	settings := llm.Config{BaseURL: w.judge.URL(), APIKey: "test"}
	if upstream != nil {
		settings.HTTPClient = &http.Client{Transport: upstream}
	}
	client, err := llm.NewClient(settings)
	if err != nil {
		t.Fatal(err)
	}
	requests, err := web.NewClient(web.Config{AllowHosts: c.HTTP.AllowHosts})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(requests.Close)
	quiet := slog.New(slog.DiscardHandler)
	recorder := record.New(store, quiet, chat.Request)
	server, err := worker.New(queue, limiter, worker.Config{
		Concurrency: 30, Logger: quiet, Events: []func(worker.Event){recorder.Event},
		ShutdownTimeout: 5 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	recorder.TakeBack(t.Context(), queue, server.Scheduler().Delete)
	chat.HandleAll(server, chat.Only(client), requests, recorder, nil,
		&chat.Unusable{Redis: queue, Log: quiet}, nil)
	inspector := asynq.NewInspectorFromRedisClient(queue)
	before, _ := inspector.Servers()
	if err = server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for listed := before; len(listed) <= len(before); listed, _ = inspector.Servers() { // asynq lists it a moment later
		if err = pause.For(t.Context(), 5*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	ended := false
	stop = func() {
		if ended {
			return
		}
		ended = true
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 3*time.Minute)
		defer cancel()
		if err := server.Stop(ctx); err != nil {
			t.Error(err)
		}
		recorder.Close()
		client.Close()
		_ = queue.Close()
		_ = buckets.Close(ctx)
	}
	t.Cleanup(stop)
	return stop
}

// chats returns n lines, named c1, c2 and so on.
func chats(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(line("c"+strconv.Itoa(i+1), 5+i%20) + "\n")
	}
	return b.String()
}
