package enqueue

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/calls/pause"
	"github.com/headway-go/headway/internal/documents/batches"
	"github.com/headway-go/headway/internal/products/chat"
	"github.com/headway-go/headway/internal/products/provider"
	"github.com/headway-go/headway/internal/products/record"
	"github.com/headway-go/headway/internal/setup/config"
	"github.com/headway-go/headway/internal/setup/connect"
	"github.com/headway-go/headway/internal/test/memredis"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks/llm"
	"github.com/headway-go/headway/tasks/web"
	"github.com/headway-go/headway/worker"
)

// world is the environment that commands and workers share in a test.
type world struct {
	redis  *memredis.Redis
	env    map[string]string
	config string
	judge  direct
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
	judge, err := provider.New(provider.Config{
		Requests: provider.Quota{Rate: 100, Capacity: 20}, Tokens: provider.Quota{Rate: 20000, Capacity: 5000},
		MinLatency: time.Millisecond, MaxLatency: 20 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = judge.Close() })
	return &world{redis: server, env: env, config: write(t, "headway.yaml", requestsAndTokens), judge: direct{judge}}
}

func (w *world) call(t *testing.T, args ...string) call {
	t.Helper()
	return callIn(t.Context(), w.redis, w.env, "", append(args, "--config", w.config)...)
}

func (w *world) getenv(name string) string { return w.env[name] }

// context is that of a command of the world.
func (w *world) context(t *testing.T) context.Context {
	t.Helper()
	return connect.WithDial(t.Context(), w.redis.Dial)
}

// judgeURL is the address of the provider, which direct calls without a socket.
const judgeURL = "http://127.0.0.1:1/v1"

// direct answers calls by a provider.
type direct struct{ *provider.Server }

func (d direct) RoundTrip(q *http.Request) (*http.Response, error) {
	answer := httptest.NewRecorder()
	d.ServeHTTP(answer, q)
	if q.Context().Err() != nil {
		return nil, q.Context().Err()
	}
	r := answer.Result()
	r.Request = q
	return r, nil
}

// buckets returns the buckets and records of the world.
func (w *world) buckets(t *testing.T) *connect.Buckets {
	t.Helper()
	buckets, err := connect.Open(w.context(t), w.getenv, "", w.redis.Client, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = buckets.Close(context.WithoutCancel(t.Context())) })
	return buckets
}

// store returns the store of the batches.
func (w *world) store(t *testing.T) *batches.Store {
	t.Helper()
	store, err := w.buckets(t).Batches(t.Context())
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
	buckets := w.buckets(t)
	store, err := buckets.Batches(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	limiter, err := reservations.New(buckets, c.Limits, reservations.Config{})
	if err != nil {
		t.Fatal(err)
	}
	queue, err := connect.Redis(w.context(t), w.getenv)
	if err != nil {
		t.Fatal(err)
	}
	if upstream == nil {
		upstream = w.judge
	}
	settings := llm.Config{BaseURL: judgeURL, APIKey: "test", HTTPClient: &http.Client{Transport: upstream}}
	client, err := llm.NewClient(settings)
	if err != nil {
		t.Fatal(err)
	}
	requests, err := web.NewClient(web.Config{AllowHosts: c.HTTP.AllowHosts, HTTPClient: settings.HTTPClient})
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
