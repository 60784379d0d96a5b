package worker_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
	"github.com/headway-go/headway/worker"
)

// An asynq program adds limits by one middleware and one config helper. Its producers do not change.
func ExampleAdopt() {
	embedded := miniredis.NewMiniRedis()
	if err := embedded.Start(); err != nil {
		log.Fatal(err)
	}
	defer embedded.Close()
	client := redis.NewClient(&redis.Options{Addr: embedded.Addr()})
	defer func() { _ = client.Close() }()

	limiter, err := reservations.New(memstore.New(nil), []reservations.Limit{{
		Name: "mail",
		Meters: []reservations.Meter{
			{Name: "messages", Rate: 5, Period: time.Second, Capacity: 1, MaxReserved: reservations.Unlimited},
		},
	}}, reservations.Config{})
	if err != nil {
		log.Fatal(err)
	}
	limits, err := worker.Adopt(client, limiter, worker.Config{
		Logger: slog.New(slog.DiscardHandler),
		Charge: func(t *asynq.Task) ([]reservations.Charge, error) {
			if t.Type() != "mail" {
				return nil, nil // not limited
			}
			return []reservations.Charge{{Limit: "mail", Tokens: reservations.Tokens{"messages": 1}}}, nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}

	// in place of asynq.NewServerFromRedisClient
	server := limits.Server(asynq.Config{LogLevel: asynq.ErrorLevel})
	mux := asynq.NewServeMux()
	mux.Use(limits.Middleware) // the middleware
	var sent sync.WaitGroup
	mux.HandleFunc("mail", func(_ context.Context, t *asynq.Task) error {
		defer sent.Done()
		fmt.Printf("mail to %s\n", t.Payload())
		return nil
	})

	ctx := context.Background()
	if err := limits.Start(ctx); err != nil {
		log.Fatal(err)
	}
	if err := server.Start(mux); err != nil {
		log.Fatal(err)
	}
	producer := asynq.NewClientFromRedisClient(client)
	for _, to := range []string{"ada", "grace", "barbara"} {
		sent.Add(1)
		// Even a task without retries can wait.
		if _, err := producer.EnqueueContext(ctx, asynq.NewTask("mail", []byte(to)), asynq.MaxRetry(0)); err != nil {
			log.Fatal(err)
		}
	}
	sent.Wait()
	server.Shutdown()
	if err := limits.Stop(ctx); err != nil {
		log.Fatal(err)
	}
	// Unordered output:
	// mail to ada
	// mail to grace
	// mail to barbara
}
