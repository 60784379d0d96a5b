package chat_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/products/chat"
	"github.com/headway-go/headway/internal/products/provider"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/tasks/llm"
	"github.com/headway-go/headway/tasks/web"
	"github.com/headway-go/headway/worker"
)

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
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 3*time.Minute)
		defer cancel()
		if err := w.Stop(ctx); err != nil {
			t.Error(err)
		}
	}()
	select {
	case f := <-finished:
		return f
	case <-time.After(3 * time.Minute):
		t.Fatal("nothing has ended")
		return worker.Event{}
	}
}

// On a worker without a key, a task loses neither its only attempt nor the only token of the hour. It waits for a
// worker with a key.
func TestWithoutAKey(t *testing.T) {
	t.Parallel()
	upstream, err := provider.Start(provider.Config{MinLatency: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = upstream.Close() })
	limiter, err := reservations.New(memstore.New(), []reservations.Limit{{
		Name: "openai",
		Meters: []reservations.Meter{
			{Name: "requests", Rate: 1, Period: time.Hour, Capacity: 1},
		},
	}}, reservations.Config{})
	if err != nil {
		t.Fatal(err)
	}
	queue := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	t.Cleanup(func() { _ = queue.Close() })
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
	client, err := llm.NewClient(llm.Config{BaseURL: upstream.URL(), APIKey: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	if second := runOne(t, queue, limiter, client); second.Kind != worker.KindSucceeded ||
		upstream.Report().Accepted != 1 {
		t.Errorf("%+v", second)
	}
}
