package testenv

import (
	"context"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// Serve starts a worker that takes from the queues and whose tasks run until the end of the test. It returns when the
// fleet sees the worker.
func Serve(tb testing.TB, client redis.UniversalClient, queues ...string) {
	tb.Helper()
	weights := map[string]int{}
	for _, queue := range queues {
		weights[queue] = 1
	}
	server := asynq.NewServerFromRedisClient(client, asynq.Config{
		Concurrency: 1, Queues: weights, LogLevel: asynq.FatalLevel, ShutdownTimeout: time.Millisecond,
	})
	if err := server.Start(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
		<-ctx.Done()
		return ctx.Err()
	})); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(server.Shutdown)
	inspector, look := asynq.NewInspectorFromRedisClient(client), time.NewTicker(time.Millisecond)
	defer look.Stop()
	for range look.C {
		servers, err := inspector.Servers()
		if err != nil {
			tb.Fatal(err)
		}
		if len(servers) > 0 {
			return
		}
	}
}
