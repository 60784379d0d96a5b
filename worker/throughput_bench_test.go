package worker_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/test/testenv"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
	"github.com/headway-go/headway/reservations/mongostore"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
)

// countdown closes its channel after n calls.
type countdown struct {
	left atomic.Int64
	done chan struct{}
}

func newCountdown(n int) *countdown {
	c := &countdown{done: make(chan struct{})}
	c.left.Store(int64(n))
	return c
}

func (c *countdown) one() {
	if c.left.Add(-1) == 0 {
		close(c.done)
	}
}

// BenchmarkThroughput measures how fast a backlog of empty tasks is processed: with asynq alone, with a worker and no
// limit, and with a full limit, where each task joins the waitlist. Run it with -benchtime 20000x.
func BenchmarkThroughput(b *testing.B) {
	b.Run("asynq", func(b *testing.B) {
		client, many := backlog(b, func(i int) tasks.Args { return free{N: i} })
		server := asynq.NewServerFromRedisClient(client, asynq.Config{
			Concurrency: 50, TaskCheckInterval: 50 * time.Millisecond, LogLevel: asynq.FatalLevel,
		})
		b.ResetTimer()
		if err := server.Start(
			asynq.HandlerFunc(func(context.Context, *asynq.Task) error { many.one(); return nil })); err != nil {
			b.Fatal(err)
		}
		<-many.done
		b.StopTimer()
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
		server.Shutdown()
	})
	b.Run("no limit", func(b *testing.B) {
		client, many := backlog(b, func(i int) tasks.Args { return free{N: i} })
		throughput(b, client, nil, many, func(e worker.Event) {
			if e.Ended() {
				many.one()
			}
		})
	})
	stores := map[string]func(*testing.B) reservations.Store{
		"memstore": func(*testing.B) reservations.Store { return memstore.New() },
		"mongostore": func(b *testing.B) reservations.Store {
			b.Helper()
			return mongostore.New(testenv.Database(b), mongostore.Options{})
		},
	}
	for _, name := range []string{"memstore", "mongostore"} {
		b.Run("sort/"+name, func(b *testing.B) {
			l, err := reservations.New(stores[name](b), []reservations.Limit{slow(1)}, reservations.Config{})
			if err != nil {
				b.Fatal(err)
			}
			client, many := backlog(b, func(i int) tasks.Args { return call{N: i, Cost: 1} })
			throughput(b, client, l, many, func(e worker.Event) {
				if e.Kind == worker.KindDeferred || e.Kind == worker.KindStarted {
					many.one()
				}
			})
		})
	}
}

// backlog enqueues b.N tasks on a Redis of its own.
func backlog(b *testing.B, task func(int) tasks.Args) (redis.UniversalClient, *countdown) {
	b.Helper()
	client := redis.NewClient(&redis.Options{Addr: testenv.StartRedisServer(b).Addr()})
	b.Cleanup(func() { _ = client.Close() })
	s, err := scheduler.New(client, nil, scheduler.Config{})
	if err != nil {
		b.Fatal(err)
	}
	many := make([]tasks.Args, b.N)
	for i := range many {
		many[i] = task(i)
	}
	if _, err := s.EnqueueMany(b.Context(), many); err != nil {
		b.Fatal(err)
	}
	return client, newCountdown(b.N)
}

// throughput runs a worker until all tasks are counted.
func throughput(
	b *testing.B, client redis.UniversalClient, l *reservations.Limiter, many *countdown, events func(worker.Event),
) {
	b.Helper()
	w, err := worker.New(client, l, worker.Config{
		Logger: slog.New(slog.DiscardHandler), Events: []func(worker.Event){events},
	})
	if err != nil {
		b.Fatal(err)
	}
	worker.Handle(w, func(context.Context, *worker.Job[free]) error { return nil })
	worker.Handle(w, func(context.Context, *worker.Job[call]) error { return nil })
	b.ReportAllocs()
	b.ResetTimer()
	if err := w.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	<-many.done
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.Context()), time.Minute)
	defer cancel()
	if err := w.Stop(ctx); err != nil {
		b.Error(err)
	}
}
