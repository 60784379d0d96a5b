package worker_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/line/envelope"
	"github.com/headway-go/headway/internal/test/testenv"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
)

// BenchmarkMiddleware measures the cost of a delivery without its handler: of a foreign task, of an unlimited task,
// and of a task that starts at once. The bucket is in memory, and deliveries share one script in Redis.
func BenchmarkMiddleware(b *testing.B) {
	task := func(args tasks.Args) *asynq.Task {
		e, err := envelope.Encode(args, tasks.Options{})
		if err != nil {
			b.Fatal(err)
		}
		return e.Task
	}
	client := redis.NewClient(&redis.Options{Addr: testenv.StartRedisServer(b).Addr()})
	b.Cleanup(func() { _ = client.Close() })
	wide := reservations.Limit{
		Name: "api",
		Meters: []reservations.Meter{
			{Name: "tokens", Rate: 1e9, Period: time.Second, Capacity: 1e9},
		},
	}
	l, err := reservations.New(memstore.New(), []reservations.Limit{wide}, reservations.Config{})
	if err != nil {
		b.Fatal(err)
	}
	limits, err := worker.Adopt(client, l, worker.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	if err := limits.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = limits.Stop(context.WithoutCancel(b.Context())) })
	handler := limits.Middleware(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return nil }))
	for _, c := range []struct {
		name string
		task *asynq.Task
	}{
		{"foreign", asynq.NewTask("any", nil)},
		{"unlimited", task(free{})},
		{"limited", task(call{Cost: 1})},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(25) // tasks at a time, on each processor
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := handler.ProcessTask(b.Context(), c.task); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}
