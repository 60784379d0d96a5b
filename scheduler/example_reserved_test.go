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

// A producer reserves tokens for a whole batch at enqueue. Each task joins the waitlist of its limit at once, and
// later tasks wait behind it. The example prints the expected start times.
func Example_reserved() {
	ctx := context.Background()
	server, err := miniredis.Run() // in production: your Redis
	if err != nil {
		panic(err)
	}
	defer server.Close()
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() { _ = client.Close() }()

	// in production: mongostore, which all machines share
	limiter, err := reservations.New(memstore.New(), []reservations.Limit{{
		Name: "provider",
		Meters: []reservations.Meter{
			{Name: "requests", Rate: 10, Period: time.Second, Capacity: 1},
			{Name: "tokens", Rate: 12_000, Period: time.Minute},
		},
	}}, reservations.Config{})
	if err != nil {
		panic(err)
	}
	producer, err := scheduler.New(client, limiter, scheduler.Config{})
	if err != nil {
		panic(err)
	}

	infos, err := producer.EnqueueMany(ctx, []tasks.Args{
		Translation{Document: "a postcard", Words: 30},
		Translation{Document: "a letter", Words: 400},
		Translation{Document: "a story", Words: 4_000},
		Translation{Document: "another letter", Words: 400},
	})
	if err != nil {
		panic(err)
	}
	// A request is refilled every 100 ms. The story needs most of a minute's tokens, so it waits, and so does the
	// letter behind it.
	for _, info := range infos {
		fmt.Println(info.State, info.NextProcessAt.Sub(infos[0].NextProcessAt).Round(time.Millisecond))
	}

	// Output:
	// scheduled 0s
	// scheduled 100ms
	// scheduled 6.45s
	// scheduled 12.45s
}
