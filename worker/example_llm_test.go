package worker_test

import (
	"context"
	"fmt"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
	"github.com/headway-go/headway/worker"
)

type Story struct{ Topic string }

func (Story) TaskType() string { return "story" }
func (Story) Charges() []reservations.Charge {
	return []reservations.Charge{{Limit: "openai", Tokens: reservations.Tokens{"tokens": 800}}}
}

// An LLM job that polled a bucket becomes a task. It waits in the waitlist, without a handler.
func Example_llmJob() {
	embedded, _ := miniredis.Run()
	defer embedded.Close()
	openai := reservations.Limit{Name: "openai", Meters: []reservations.Meter{reservations.PerMinute("tokens", 1000)}}
	limiter, _ := reservations.New(memstore.New(), []reservations.Limit{openai}, reservations.Config{})
	w, _ := worker.New(redis.NewClient(&redis.Options{Addr: embedded.Addr()}), limiter, worker.Config{})
	ctx, cancel := context.WithCancel(context.Background())
	worker.Handle(w, func(_ context.Context, job *worker.Job[Story]) error {
		defer cancel()
		job.Use(reservations.Tokens{"tokens": 100}) // from the answer; waiting tasks get the rest
		fmt.Println("wrote about", job.Args.Topic)
		return nil
	})
	_, _ = w.Scheduler().Enqueue(ctx, Story{Topic: "rivers"})
	_ = w.Run(ctx)
	// Output: wrote about rivers
}
