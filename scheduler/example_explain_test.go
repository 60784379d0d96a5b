package scheduler_test

import (
	"context"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/tasks"
)

func ExampleScheduler_Explain() {
	ctx := context.Background()
	server, err := miniredis.Run() // in production: your Redis
	if err != nil {
		panic(err)
	}
	defer server.Close()
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() { _ = client.Close() }()
	limiter, err := reservations.New(memstore.New(), []reservations.Limit{{
		Name: "provider",
		Meters: []reservations.Meter{
			{Name: "requests", Rate: 1, Period: time.Hour},
			reservations.PerMinute("tokens", 200_000),
		},
	}}, reservations.Config{})
	if err != nil {
		panic(err)
	}
	s, err := scheduler.New(client, limiter, scheduler.Config{})
	if err != nil {
		panic(err)
	}
	for _, id := range []string{"letter", "novel", "poem"} {
		if _, err = s.Enqueue(ctx, Translation{Document: id, Words: 400}, tasks.Options{ID: id}); err != nil {
			panic(err)
		}
	}

	e, err := s.Explain(ctx, "default", "poem")
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s, for limit %s: number %d of %d\n", e.Reason, e.Waits.Bucket, e.Waits.Position, e.Waits.Of)
	fmt.Println("the backlog is done in about", e.Bucket.DoneIn.Round(time.Minute))

	// Output:
	// limit, for limit provider: number 3 of 3
	// the backlog is done in about 2h0m0s
}
