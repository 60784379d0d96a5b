package worker_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
)

// Greeting is a task: payload, type, charges and options.
type Greeting struct {
	Name string `json:"name"`
}

func (Greeting) TaskType() string { return "greeting" }

func (Greeting) Charges() []reservations.Charge {
	return []reservations.Charge{{Limit: "greetings", Tokens: reservations.Tokens{"requests": 1}}}
}

func (Greeting) TaskOptions() tasks.Options { return tasks.Options{MaxRetry: 5, Timeout: time.Minute} }

// A worker runs typed tasks within a limit that a whole fleet shares. This example uses an embedded Redis and a store
// in memory. A fleet uses a real Redis and mongostore.
func Example() {
	embedded := miniredis.NewMiniRedis()
	if err := embedded.Start(); err != nil {
		log.Fatal(err)
	}
	defer embedded.Close()
	client := redis.NewClient(&redis.Options{Addr: embedded.Addr()})
	defer func() { _ = client.Close() }()

	limits := []reservations.Limit{{
		Name: "greetings",
		Meters: []reservations.Meter{
			{Name: "requests", Rate: 10, Period: time.Second, Capacity: 1},
		},
	}}
	limiter, err := reservations.New(memstore.New(), limits, reservations.Config{})
	if err != nil {
		log.Fatal(err)
	}
	w, err := worker.New(client, limiter, worker.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		log.Fatal(err)
	}
	var greeted sync.WaitGroup
	began := time.Now()
	worker.Handle(w, func(_ context.Context, job *worker.Job[Greeting]) error {
		defer greeted.Done()
		fmt.Println("Hello", job.Args.Name)
		return nil
	})
	ctx := context.Background()
	if err = w.Start(ctx); err != nil {
		log.Fatal(err)
	}

	producer, err := scheduler.New(client, limiter, scheduler.Config{})
	if err != nil {
		log.Fatal(err)
	}
	for _, name := range []string{"Ada", "Grace", "Barbara", "Frances", "Jean"} {
		greeted.Add(1)
		if _, err := producer.Enqueue(ctx, Greeting{Name: name}); err != nil {
			log.Fatal(err)
		}
	}
	greeted.Wait()
	took := time.Since(began) //gate:ok a lower bound
	fmt.Println("five greetings at 10 a second took at least 400 ms:", took >= 400*time.Millisecond)
	if err := w.Stop(ctx); err != nil {
		log.Fatal(err)
	}
	// Unordered output:
	// Hello Ada
	// Hello Grace
	// Hello Barbara
	// Hello Frances
	// Hello Jean
	// five greetings at 10 a second took at least 400 ms: true
}
