package worker_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
)

// Draft is written for a customer with a share of the provider's limit.
type Draft struct {
	Customer string `json:"customer"`
	Topic    string `json:"topic"`
}

func (Draft) TaskType() string { return "draft" }

func (d Draft) Charges() []reservations.Charge {
	tokens := reservations.Tokens{"tokens": 800}
	return []reservations.Charge{
		{Limit: "customer", Key: d.Customer, Tokens: tokens}, // the narrowest first
		{Limit: "openai", Tokens: tokens},                    // the provider's last
	}
}

// A task may charge several limits. It starts when all of them grant it. The limit that refuses names the time of the
// next try.
func Example_severalLimits() {
	embedded := miniredis.NewMiniRedis()
	if err := embedded.Start(); err != nil {
		log.Fatal(err)
	}
	defer embedded.Close()
	client := redis.NewClient(&redis.Options{Addr: embedded.Addr()})
	defer func() { _ = client.Close() }()

	limiter, err := reservations.New(memstore.New(), []reservations.Limit{
		{Name: "customer", Meters: []reservations.Meter{
			{Name: "tokens", Rate: 800, Period: time.Second, Capacity: 800},
		}},
		{Name: "openai", Meters: []reservations.Meter{reservations.PerMinute("tokens", 200_000)}},
	}, reservations.Config{})
	if err != nil {
		log.Fatal(err)
	}
	done := make(chan struct{}, 2)
	w, err := worker.New(client, limiter, worker.Config{
		Concurrency: 1,
		Logger:      slog.New(slog.DiscardHandler),
		Events: []func(worker.Event){func(e worker.Event) {
			if e.Kind == worker.KindDeferred {
				fmt.Println("waiting for", e.Charge.Bucket())
			}
		}},
	})
	if err != nil {
		log.Fatal(err)
	}
	worker.Handle(w, func(_ context.Context, job *worker.Job[Draft]) error {
		fmt.Println("writing about", job.Args.Topic)
		done <- struct{}{}
		return nil
	})
	ctx := context.Background()
	for _, topic := range []string{"rivers", "lakes"} {
		if _, err = w.Scheduler().Enqueue(ctx, Draft{Customer: "acme", Topic: topic},
			tasks.Options{MaxRetry: tasks.NoRetry}); err != nil {
			log.Fatal(err)
		}
	}
	if err = w.Start(ctx); err != nil {
		log.Fatal(err)
	}
	<-done
	<-done
	if err = w.Stop(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// writing about rivers
	// waiting for customer:acme
	// writing about lakes
}
