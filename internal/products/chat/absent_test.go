package chat_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/products/chat"
	"github.com/headway-go/headway/internal/products/provider"
	"github.com/headway-go/headway/internal/test/memhttp"
	"github.com/headway-go/headway/internal/test/memredis"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/tasks/llm"
	"github.com/headway-go/headway/tasks/web"
	"github.com/headway-go/headway/worker"
)

// upstream is a provider in the bubble of a test.
type upstream struct {
	*provider.Server

	by *http.Client
}

func newUpstream(t *testing.T, config provider.Config) upstream {
	t.Helper()
	server, err := provider.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	return upstream{server, memhttp.Start(t, server)}
}

// upstreamURL is the address of each upstream.
const upstreamURL = memhttp.URL + "/v1"

// client returns a client of the provider.
func (u upstream) client(t *testing.T, sync llm.Sync) *llm.Client {
	t.Helper()
	client, err := llm.NewClient(llm.Config{BaseURL: upstreamURL, APIKey: "test", HTTPClient: u.by, Sync: sync})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// runOne runs a worker until a task has ended, and returns its end.
func runOne(
	t *testing.T, queue redis.UniversalClient, limiter *reservations.Limiter, client *llm.Client,
) worker.Event {
	t.Helper()
	requests, err := web.NewClient(web.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer requests.Close()
	finished := make(chan worker.Event, 10)
	w, err := worker.New(queue, limiter, worker.Config{
		Logger: slog.New(slog.DiscardHandler), Events: ends(finished),
	})
	if err != nil {
		t.Fatal(err)
	}
	provider := func(limit string) (*llm.Client, string) { return client, "key for " + limit }
	chat.HandleAll(w, provider, requests, nil, nil, nil, nil)
	if err = w.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := w.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	return <-finished
}

// On a worker without a key, a task loses neither its only attempt nor the only token of the hour. It waits for a
// worker with a key.
func TestWithoutAKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, withoutAKey)
}

func withoutAKey(t *testing.T) {
	upstream := newUpstream(t, provider.Config{MinLatency: -1})
	limiter, err := reservations.New(memstore.New(), []reservations.Limit{{
		Name: "openai",
		Meters: []reservations.Meter{
			{Name: "requests", Rate: 1, Period: time.Hour, Capacity: 1},
		},
	}}, reservations.Config{})
	if err != nil {
		t.Fatal(err)
	}
	queue := memredis.Start(t)
	way, err := scheduler.New(queue, limiter, scheduler.Config{})
	if err != nil {
		t.Fatal(err)
	}
	task, err := llm.NewCall(llm.EndpointResponses, "openai", json.RawMessage(`{"model":"m","input":"hi"}`), "requests")
	if err != nil {
		t.Fatal(err)
	}
	if _, err = way.Enqueue(t.Context(), task, tasks.Options{MaxRetry: tasks.NoRetry, ID: "a"}); err != nil {
		t.Fatal(err)
	}
	first := runOne(t, queue, limiter, nil)
	info, err := asynq.NewInspectorFromRedisClient(queue).GetTaskInfo("default", "a")
	if err != nil || info.State != asynq.TaskStateRetry || info.Retried != 0 || first.Kind != worker.KindAborted ||
		!strings.HasSuffix(info.LastErr, "has no key for openai") {
		t.Fatalf("%+v, %v, after %+v", info, err, first)
	}
	client := upstream.client(t, llm.SyncDown)
	if second := runOne(t, queue, limiter, client); second.Kind != worker.KindSucceeded ||
		upstream.Report().Accepted != 1 {
		t.Errorf("%+v", second)
	}
}
