package chat_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/products/chat"
	"github.com/headway-go/headway/internal/products/provider"
	"github.com/headway-go/headway/internal/test/memredis"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
	"github.com/headway-go/headway/tasks/llm"
	"github.com/headway-go/headway/worker"
)

// After a chat the bucket goes down to the rest that the provider's answer reports.
func TestChatSyncsTheBucket(t *testing.T) {
	t.Parallel()
	synctest.Test(t, chatSyncsTheBucket)
}

func chatSyncsTheBucket(t *testing.T) {
	upstream := newUpstream(t, provider.Config{
		Requests: provider.Quota{Rate: 3.0 / 86400, Capacity: 3}, MinLatency: -1, // the bucket has 100
	})
	client := upstream.client(t, llm.SyncDown)
	store := memstore.New()
	limiter, err := reservations.New(store, []reservations.Limit{{
		Name: "openai",
		Meters: []reservations.Meter{
			{Name: llm.MeterRequestsPerDay, Rate: 100, Period: 24 * time.Hour},
		},
	}}, reservations.Config{})
	if err != nil {
		t.Fatal(err)
	}
	queue := memredis.Start(t)
	syncs := make(chan worker.Event, 1)
	w, err := worker.New(queue, limiter, worker.Config{
		Logger: slog.New(slog.DiscardHandler), Events: []func(worker.Event){func(e worker.Event) {
			if e.Kind == worker.KindSynced {
				syncs <- e
			}
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	chat.HandleCalls(w, chat.Only(client), nil, nil, nil, nil)
	if err = w.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if stopping := w.Stop(context.WithoutCancel(t.Context())); stopping != nil {
			t.Error(stopping)
		}
	})
	task, err := llm.NewCall(llm.EndpointChat, "openai",
		json.RawMessage(`{"model":"m","messages":[{"role":"user","content":"hi"}]}`), llm.MeterRequestsPerDay)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = w.Scheduler().Enqueue(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	if s := <-syncs; s.Err != nil || s.Seen.Remaining[llm.MeterRequestsPerDay] != 2 {
		t.Errorf("%+v", s)
	}
	held, _, err := bucket.Read(t.Context(), store, "openai", "")
	if err != nil {
		t.Fatal(err)
	}
	if left := held.Meters[0].Started; left < 2 || left > 2.1 {
		t.Errorf("%v are left, want 2", left)
	}
}
