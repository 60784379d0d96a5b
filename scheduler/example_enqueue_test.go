package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/tasks"
)

// Translation is a task: its fields are the payload.
type Translation struct {
	Document string `json:"document"`
	Words    int    `json:"words"`
}

// TaskType names the type of the task.
func (Translation) TaskType() string { return "translation" }

// Charges returns the charge of one translation to the limit "provider".
func (t Translation) Charges() []reservations.Charge {
	return []reservations.Charge{
		{Limit: "provider", Tokens: reservations.Tokens{"requests": 1, "tokens": 3 * float64(t.Words)}},
	}
}

func Example_enqueue() {
	ctx := context.Background()
	server, err := miniredis.Run() // in production: your Redis
	if err != nil {
		panic(err)
	}
	defer server.Close()
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() { _ = client.Close() }()

	// The limiter is optional for a producer. With it, Enqueue refuses tasks that can never run.
	limiter, err := reservations.New(memstore.New(), []reservations.Limit{{
		Name: "provider",
		Meters: []reservations.Meter{
			{Name: "requests", Rate: 500, Period: time.Minute},
			{Name: "tokens", Rate: 200_000, Period: time.Minute, MaxReserved: reservations.None},
		},
	}}, reservations.Config{})
	if err != nil {
		panic(err)
	}
	producer, err := scheduler.New(client, limiter, scheduler.Config{})
	if err != nil {
		panic(err)
	}

	now, err := producer.Enqueue(ctx, Translation{Document: "a letter", Words: 400}, tasks.Options{MaxRetry: 3})
	if err != nil {
		panic(err)
	}
	fmt.Println("now:", now.State, "in queue", now.Queue)

	later, err := producer.Enqueue(ctx, Translation{Document: "a novel", Words: 60_000},
		tasks.Options{At: time.Now().Add(time.Hour), ID: "novel", Queue: "night"})
	if err != nil {
		panic(err)
	}
	fmt.Println("in an hour:", later.State, "in queue", later.Queue)

	_, err = producer.Enqueue(ctx, Translation{Document: "a novel", Words: 60_000},
		tasks.Options{ID: "novel", Queue: "night"})
	fmt.Println("twice:", errors.Is(err, asynq.ErrTaskIDConflict))

	_, err = producer.Enqueue(ctx, Translation{Document: "an encyclopedia", Words: 40_000_000})
	fmt.Println("too large:", reservations.IsPermanent(err))

	// Output:
	// now: scheduled in queue default
	// in an hour: scheduled in queue night
	// twice: true
	// too large: true
}
