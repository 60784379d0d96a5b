package worker_test

import (
	"context"
	"testing"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/worker"
)

// Tasks of a handler without the middleware have no limit and never wait, even if Charge returns charges for them.
func TestSortLeavesHandlersBesideTheMiddleware(t *testing.T) {
	t.Parallel()
	b := setup(t, slow(1))
	sorted, ran := make(chan worker.Event, 100), make(chan string, 1000)
	events := append(b.events(), only(worker.KindSorted, func(e worker.Event) { sorted <- e }))
	limits, err := worker.Adopt(b.client, b.limiter, worker.Config{
		Events: events,
		Charge: func(*asynq.Task) ([]reservations.Charge, error) {
			return []reservations.Charge{{Limit: "api", Tokens: reservations.Tokens{"tokens": 1}}}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	const each = 80
	client := asynq.NewClientFromRedisClient(b.client)
	for range each {
		for _, name := range []string{"limited", "beside"} {
			if _, err := client.EnqueueContext(t.Context(), asynq.NewTask(name, nil)); err != nil {
				t.Fatal(err)
			}
		}
	}
	handler := asynq.HandlerFunc(func(_ context.Context, t *asynq.Task) error {
		ran <- t.Type()
		return nil
	})
	mux := asynq.NewServeMux()
	mux.Handle("limited", limits.Middleware(handler))
	mux.Handle("beside", handler)
	server := limits.Server(asynq.Config{Concurrency: 2, LogLevel: asynq.FatalLevel})
	if err := limits.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := server.Start(mux); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Shutdown()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
		defer cancel()
		if err := limits.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	if e := receive(t, sorted); e.Tasks == 0 || e.Tasks >= each {
		t.Errorf("%+v", e)
	}
	for beside := 0; beside < each; {
		if receive(t, ran) == "beside" {
			beside++
		}
	}
}
