// Command summary is a complete program with Headway. `summary worker` runs a worker, and `summary enqueue TEXT`
// enqueues tasks. docs/getting-started.md quotes it. It needs Redis and MongoDB, at REDIS_URL and MONGODB_URI or where
// `docker compose up -d redis mongo` has them.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/connstring"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/mongostore"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
)

// Summary is a task: its payload, its type, what it costs, how often it is retried.
type Summary struct {
	Document string `json:"document"`
}

func (Summary) TaskType() string { return "summary" }

func (s Summary) Charges() []reservations.Charge {
	estimate := float64(len(s.Document)/4 + 500) // the prompt, and the longest answer we allow
	return []reservations.Charge{{
		Limit:  "openai",
		Tokens: reservations.Tokens{"requests": 1, "tokens": estimate},
	}}
}

func (Summary) TaskOptions() tasks.Options {
	return tasks.Options{MaxRetry: 5, Timeout: 2 * time.Minute}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM) // as containers stop
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, args []string) error {
	works := len(args) == 1 && args[0] == "worker"
	if !works && (len(args) < 2 || args[0] != "enqueue") {
		return errors.New("usage: summary worker, or summary enqueue TEXT")
	}
	address, err := redis.ParseURL(cmp.Or(os.Getenv("REDIS_URL"), "redis://127.0.0.1:6379"))
	if err != nil {
		return err
	}
	client := redis.NewClient(address)
	uri, err := connstring.Parse(cmp.Or(os.Getenv("MONGODB_URI"), "mongodb://127.0.0.1:27017"))
	if err != nil {
		return err
	}
	database, err := mongostore.Connect(ctx, uri.Original)
	if err != nil {
		return err
	}
	// the same database as the commands of headway have
	buckets := mongostore.New(database.Database(cmp.Or(uri.Database, "headway")), mongostore.Options{})
	if err = buckets.EnsureIndexes(ctx); err != nil { // buckets that are not used vanish
		return err
	}
	limiter, err := reservations.New(buckets, []reservations.Limit{{
		Name: "openai",
		Meters: []reservations.Meter{
			reservations.PerMinute("requests", 500),
			{Name: "tokens", Rate: 200_000, Period: time.Minute, Capacity: 20_000}, // as headway.yaml has it
		},
	}}, reservations.Config{})
	if err != nil {
		return err
	}
	if works {
		return work(ctx, client, limiter)
	}
	return enqueue(ctx, client, limiter, strings.Join(args[1:], " "))
}

func work(ctx context.Context, client redis.UniversalClient, limiter *reservations.Limiter) error {
	w, err := worker.New(client, limiter, worker.Config{Concurrency: 100})
	if err != nil {
		return err
	}
	worker.Handle(w, func(ctx context.Context, job *worker.Job[Summary]) error {
		text, used, err := summarize(ctx, job.Args.Document)
		job.Use(reservations.Tokens{"tokens": used}) // the real cost replaces the estimate
		if err != nil {
			return err // retried; tasks.Permanent(err) is not
		}
		fmt.Println(text)
		return nil
	})
	return w.Run(ctx) // until ctx ends; then it waits for running tasks and settlements
}

func enqueue(ctx context.Context, client redis.UniversalClient, limiter *reservations.Limiter, document string) error {
	s, err := scheduler.New(client, limiter, scheduler.Config{})
	if err != nil {
		return err
	}
	task := Summary{Document: document}
	if _, err = s.Enqueue(ctx, task); err != nil { // now
		return err
	}
	if _, err = s.Enqueue(ctx, task, tasks.Options{At: time.Now().Add(8 * time.Hour)}); err != nil { // later
		return err
	}
	_, err = s.EnqueueMany(ctx, []tasks.Args{task, task}) // many, in order
	return err
}

// summarize stands for the call to a provider. It returns the tokens that the provider says it used.
func summarize(ctx context.Context, document string) (string, float64, error) {
	return document[:min(20, len(document))] + "…", float64(len(document)/4 + 100), ctx.Err()
}
