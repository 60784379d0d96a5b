package headway_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"sync"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway"
	"github.com/headway-go/headway/worker"
)

// An asynq program adds limits by one constructor and one middleware. Its producers do not change.
func ExampleAdopt() {
	client, end := newRedis()
	defer end()

	limits, err := headway.Adopt(client, headway.Config{
		Limits: headway.Limits{"mail": {{Name: "messages", Rate: 300, Period: time.Minute, Capacity: 1}}},
		Worker: worker.Config{
			Logger: slog.New(slog.DiscardHandler),
			Charge: func(t *asynq.Task) ([]headway.Charge, error) {
				if t.Type() != "mail" {
					return nil, nil // not limited
				}
				return []headway.Charge{{Limit: "mail", Tokens: headway.Tokens{"messages": 1}}}, nil
			},
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
