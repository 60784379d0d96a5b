package scheduler_test

import (
	"context"
	"fmt"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/tasks"
)

// Report is a task of one customer.
type Report struct{ Customer, Priority string }

// TaskType implements tasks.Args.
func (Report) TaskType() string { return "report" }

// Charges implements tasks.Charger: the customer is the flow.
func (r Report) Charges() []reservations.Charge {
	return []reservations.Charge{{
		Limit: "provider", Tokens: reservations.Tokens{"tokens": 100}, Flow: r.Customer, Priority: r.Priority,
	}}
}

// Customers share a provider fairly, and interactive tasks get nine tenths of it: the last task to come
// waits behind one other task instead of 60.
func Example_flows() {
	ctx := context.Background()
	server, err := miniredis.Run() // in production: your Redis
	if err != nil {
		panic(err)
	}
	defer server.Close()
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() { _ = client.Close() }()
	limiter, err := reservations.New(memstore.New(), []reservations.Limit{{ // in production: mongostore
		Name: "provider", Meters: []reservations.Meter{reservations.PerMinute("tokens", 6000)},
		Weights:    map[string]float64{"acme": 2}, // others have 1
		Priorities: map[string]float64{"interactive": 9, "batch": 1},
	}}, reservations.Config{})
	if err != nil {
		panic(err)
	}
	s, err := scheduler.New(client, limiter, scheduler.Config{})
	if err != nil {
		panic(err)
	}
	show := func(customer, priority string, n int) {
		infos, err := s.EnqueueMany(ctx, several(Report{customer, priority}, n))
		if err != nil {
			fmt.Printf("%.84s ...\n", err)
			return
		}
		last := infos[len(infos)-1]
		e, err := s.Explain(ctx, last.Queue, last.ID)
		if err != nil {
			panic(err)
		}
		w := e.Waits
		fmt.Printf("%s (weight %v), %s: number %d of %d\n", w.Flow, w.Weight, w.Priority, w.Position, w.Of)
	}
	show("flood", "batch", 60)
	show("acme", "batch", 2)
	show("small", "interactive", 1)
	show("small", "urgent", 1)

	// Output:
	// flood (weight 1), batch: number 60 of 60
	// acme (weight 2), batch: number 3 of 62
	// small (weight 1), interactive: number 2 of 63
	// task 0: task "report": reservations: invalid charge: priority "urgent" is unknown in ...
}

// several returns n equal tasks.
func several(r Report, n int) (all []tasks.Args) {
	for range n {
		all = append(all, r)
	}
	return all
}
