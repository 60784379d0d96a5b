package scheduler_test

import (
	"context"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/tasks"
)

// Digest is a task of a type of your own.
type Digest struct {
	Of string `json:"of"`
}

// TaskType implements tasks.Args.
func (Digest) TaskType() string { return "digest" }

// Every process of the fleet has the same recurring tasks. One of them enqueues each tick, once.
func ExampleRecurring() {
	server, err := miniredis.Run() // instead of your Redis
	if err != nil {
		panic(err)
	}
	defer server.Close()
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() { _ = client.Close() }()

	_, err = scheduler.New(client, nil, scheduler.Config{Recurring: []scheduler.Recurring{
		{Name: "nightly", Spec: "0 3 * * *", Zone: "Europe/Berlin", Args: Digest{Of: "the day"}},
		{
			Name: "ping", Spec: "@every 5m", StartWithin: time.Minute, Args: Digest{Of: "now"},
			Options: tasks.Options{Unique: "ping", Queue: "fast"}, // never two at once
		},
		{Name: "wrong", Spec: "61 * * * *", Args: Digest{}},
	}})
	fmt.Printf("%.98s ...\n", err)
	// Output:
	// scheduler: invalid config: recurring.wrong.spec: "61 * * * *" must be minute, hour, day, month and ...
}

// A task with a unique key is refused while another task with the key waits or runs.
func ExampleUnique() {
	server, err := miniredis.Run()
	if err != nil {
		panic(err)
	}
	defer server.Close()
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() { _ = client.Close() }()
	ctx := context.Background()
	s, err := scheduler.New(client, nil, scheduler.Config{})
	if err != nil {
		panic(err)
	}
	for range 2 {
		_, err = s.Enqueue(ctx, Digest{Of: "May"},
			tasks.Options{Unique: "May", ID: "first", At: time.Now().Add(10 * time.Minute)})
		fmt.Println(err)
	}
	_, err = s.Enqueue(ctx, Digest{Of: "June"}, tasks.Options{StartBy: time.Unix(0, 0)})
	fmt.Println(err != nil)
	// Output:
	// <nil>
	// enqueue task "digest": task default/first with the unique key "May" waits or runs already
	// true
}
