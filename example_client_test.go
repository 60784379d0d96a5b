package headway_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/headway-go/headway"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
)

// Summary is a task: its payload, its type, what it costs, how often it is retried.
type Summary struct {
	Document string `json:"document"`
}

func (Summary) TaskType() string { return "summary" }

func (s Summary) Charges() []headway.Charge {
	estimate := float64(len(s.Document)/4 + 500) // the prompt, and the longest answer we allow
	return []headway.Charge{{Limit: "openai", Tokens: headway.Tokens{"requests": 1, "tokens": estimate}}}
}

func (Summary) TaskOptions() headway.Options {
	return headway.Options{MaxRetry: 5, Timeout: 2 * time.Minute}
}

// A client enqueues tasks for now and for later, says why they wait, and runs them.
func Example() {
	client, end := newRedis()
	defer end()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()

	hw, err := headway.New(client, headway.Config{
		Limits: headway.Limits{"openai": {
			headway.PerMinute("requests", 500),
			{Name: "tokens", Rate: 200_000, Period: time.Minute, Capacity: 20_000}, // as headway.yaml has it
		}},
		Worker: worker.Config{Concurrency: 100, Logger: slog.New(slog.DiscardHandler)},
	})
	if err != nil {
		log.Fatal(err)
	}
	headway.Handle(hw, func(ctx context.Context, job *headway.Job[Summary]) error {
		text, used, err := summarize(ctx, job.Args.Document)
		job.Used("tokens", used) // the real cost replaces the estimate
		if err != nil {
			return err // retried; tasks.Permanent(err) is not
		}
		fmt.Println(text)
		stop() // the example ends; a worker runs on
		return nil
	})

	enqueue := func(document string) error {
		task := Summary{Document: document}
		if _, err := hw.Enqueue(ctx, task); err != nil { // now
			return err
		}
		later, err := hw.Enqueue(ctx, task, headway.Options{At: time.Now().Add(8 * time.Hour)})
		if err != nil {
			return err
		}
		e, err := hw.Explain(ctx, later.Queue, later.ID)
		if err != nil {
			return err
		}
		fmt.Println(e.Reason)
		_, err = hw.EnqueueMany(ctx, []tasks.Args{task, task}, headway.Options{At: e.Until}) // many, in order
		return errors.Join(err, hw.Delete(ctx, later.Queue, later.ID))
	}
	if err := enqueue("A long document"); err != nil {
		log.Fatal(err)
	}
	if err := hw.Run(ctx); err != nil { // until ctx ends; then it waits for running tasks and settlements
		log.Fatal(err)
	}
	// Output:
	// scheduled
	// summary of A long document
}

// summarize stands for the call to a provider. It returns the tokens that the provider says it used.
func summarize(ctx context.Context, document string) (string, float64, error) {
	return "summary of " + document, float64(len(document)/4 + 100), ctx.Err()
}
