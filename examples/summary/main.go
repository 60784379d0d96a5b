// Command summary is a complete program with Headway: it enqueues a task, and runs tasks until Ctrl-C. README shows all
// of it. It needs Redis, at REDIS_URL or on this machine.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway"
)

// Summary is a task: its payload, its type, and what it takes from which limit.
type Summary struct{ Document string }

func (Summary) TaskType() string { return "summary" }

func (s Summary) Charges() []headway.Charge {
	estimate := float64(len(s.Document)/4 + 500) // the prompt, and the longest answer we allow
	return []headway.Charge{{Limit: "openai", Tokens: headway.Tokens{"requests": 1, "tokens": estimate}}}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	address, err := redis.ParseURL(cmp.Or(os.Getenv("REDIS_URL"), "redis://127.0.0.1:6379"))
	if err == nil {
		err = run(ctx, redis.NewClient(address))
	}
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, client redis.UniversalClient) error {
	hw, err := headway.New(client, headway.Config{Limits: headway.Limits{
		"openai": {headway.PerMinute("requests", 500), headway.PerMinute("tokens", 200_000)},
	}})
	if err != nil {
		return err
	}
	headway.Handle(hw, func(_ context.Context, job *headway.Job[Summary]) error {
		fmt.Println("a summary of", job.Args.Document) // call the provider here
		job.Used("tokens", 140)                        // the real cost replaces the estimate
		return nil                                     // an error is retried
	})
	if _, err = hw.Enqueue(ctx, Summary{Document: "a letter"}); err != nil {
		return err
	}
	return hw.Run(ctx) // until ctx ends; then it waits for running tasks
}
