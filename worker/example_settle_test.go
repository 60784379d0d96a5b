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
	"github.com/headway-go/headway/worker"
)

// Essay reserves the largest number of tokens of its answer.
type Essay struct {
	Topic     string `json:"topic"`
	MaxTokens int    `json:"max_tokens"`
}

func (Essay) TaskType() string { return "essay" }

func (e Essay) Charges() []reservations.Charge {
	return []reservations.Charge{
		{Limit: "writer", Tokens: reservations.Tokens{"requests": 1, "tokens": float64(e.MaxTokens)}},
	}
}

// A handler reports the real usage of a task. Waiting tasks get the rest.
func ExampleJob_Use() {
	embedded := miniredis.NewMiniRedis()
	if err := embedded.Start(); err != nil {
		log.Fatal(err)
	}
	defer embedded.Close()
	client := redis.NewClient(&redis.Options{Addr: embedded.Addr()})
	defer func() { _ = client.Close() }()

	limits := []reservations.Limit{{
		Name: "writer",
		Meters: []reservations.Meter{
			reservations.PerMinute("requests", 60),
			{Name: "tokens", Rate: 1000, Period: 24 * time.Hour, Capacity: 1000},
		},
	}}
	limiter, err := reservations.New(memstore.New(), limits, reservations.Config{})
	if err != nil {
		log.Fatal(err)
	}
	settled := make(chan worker.Event, 1)
	w, err := worker.New(client, limiter, worker.Config{
		Logger: slog.New(slog.DiscardHandler),
		Events: []func(worker.Event){func(e worker.Event) {
			if e.Kind == worker.KindSettled {
				settled <- e
			}
		}},
	})
	if err != nil {
		log.Fatal(err)
	}
	worker.Handle(w, func(_ context.Context, job *worker.Job[Essay]) error {
		fmt.Printf("writing about %s with %v tokens reserved\n", job.Args.Topic, job.Charges[0].Tokens["tokens"])
		job.Use(reservations.Tokens{"tokens": 210}) // one request was used, as estimated
		return nil
	})
	ctx := context.Background()
	if err = w.Start(ctx); err != nil {
		log.Fatal(err)
	}
	if _, err = w.Scheduler().Enqueue(ctx, Essay{Topic: "clocks", MaxTokens: 800}); err != nil {
		log.Fatal(err)
	}
	s := <-settled
	fmt.Printf("%v of %v tokens were used\n", s.Used["tokens"], s.Charge.Tokens["tokens"])

	next, err := limiter.Allow(ctx, Essay{MaxTokens: 700}.Charges()[0])
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the next one, of 700, starts:", next.Started())
	if err = w.Stop(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// writing about clocks with 800 tokens reserved
	// 210 of 800 tokens were used
	// the next one, of 700, starts: true
}
