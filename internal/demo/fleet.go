package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/chat"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks/llm"
	"github.com/headway-go/headway/worker"
)

// fleetSize is the number of workers. Each has its own connection, as on separate machines.
const fleetSize = 3

// fleet is a queue and the workers on it.
type fleet struct {
	server  *miniredis.Miniredis
	clients []*redis.Client
	workers []*worker.Worker
}

// startFleet starts an embedded Redis and the workers. Stop it even after an error.
func startFleet(
	ctx context.Context, limiter *reservations.Limiter, client *llm.Client, events worker.Events,
) (*fleet, error) {
	server, err := miniredis.Run()
	if err != nil {
		return &fleet{}, fmt.Errorf("start the embedded Redis: %w", err)
	}
	f := &fleet{server: server}
	for range fleetSize {
		w, err := worker.New(f.connect(), limiter, worker.Config{
			Concurrency: 40,
			Logger:      slog.New(slog.DiscardHandler), // the view shows the events instead
			Events:      events,
		})
		if err != nil {
			return f, err
		}
		chat.Handle(w, client)
		if err := w.Start(ctx); err != nil {
			return f, err
		}
		f.workers = append(f.workers, w)
	}
	return f, nil
}

func (f *fleet) connect() *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: f.server.Addr()})
	f.clients = append(f.clients, c)
	return c
}

func (f *fleet) stop(ctx context.Context) error {
	var faults []error
	for _, w := range f.workers {
		faults = append(faults, w.Stop(ctx))
	}
	for _, c := range f.clients {
		faults = append(faults, c.Close())
	}
	if f.server != nil {
		f.server.Close()
	}
	return errors.Join(faults...)
}
