package demo

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/products/chat"
	"github.com/headway-go/headway/internal/products/dashboard"
	"github.com/headway-go/headway/internal/products/embedded"
	"github.com/headway-go/headway/internal/state"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/tasks/llm"
	"github.com/headway-go/headway/worker"
)

// fleetSize is the number of workers. Each has its own connection, as on separate machines.
const fleetSize = 3

// fleet is a queue and the workers on it.
type fleet struct {
	server  *embedded.Redis
	clients []*redis.Client
	workers []*worker.Worker
}

// startFleet starts an embedded Redis and the workers. Stop it even after an error.
func startFleet(
	ctx context.Context, limiter *reservations.Limiter, client *llm.Client, events func(worker.Event),
) (*fleet, error) {
	server, err := embedded.Start()
	if err != nil {
		return &fleet{}, err
	}
	f := &fleet{server: server}
	for range fleetSize {
		w, err := worker.New(f.connect(), limiter, worker.Config{
			Concurrency: 40,
			Logger:      slog.New(slog.DiscardHandler), // the view shows the events instead
			Events:      []func(worker.Event){events},
		})
		if err != nil {
			return f, err
		}
		chat.HandleCalls(w, chat.Only(client), nil, nil, nil, nil)
		if err := w.Start(ctx); err != nil {
			return f, err
		}
		f.workers = append(f.workers, w)
	}
	return f, nil
}

// show serves the page until stop, which returns its error.
func (f *fleet) show(
	ctx context.Context, limiter *reservations.Limiter, on net.Listener,
) (stop func() error, err error) {
	queue := f.connect()
	s, err := scheduler.New(queue, limiter, scheduler.Config{})
	if err != nil {
		return nil, err
	}
	server, err := dashboard.New(dashboard.Config{
		Reader: state.Reader{Limiter: limiter, Scheduler: s}, Client: queue, AllowChanges: true,
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx, on) }()
	return func() error {
		cancel()
		return <-ended
	}, nil
}

func (f *fleet) connect() *redis.Client {
	c := f.server.Connect()
	f.clients = append(f.clients, c)
	return c
}

// stop stops all workers at once.
func (f *fleet) stop(ctx context.Context) error {
	faults := make([]error, len(f.workers), len(f.workers)+len(f.clients))
	var stopping sync.WaitGroup
	for i, w := range f.workers {
		stopping.Go(func() { faults[i] = w.Stop(ctx) })
	}
	stopping.Wait()
	if err := errors.Join(faults...); err != nil {
		return err // a server of asynq that still stops panics without its client, and the process ends
	}
	for _, c := range f.clients {
		faults = append(faults, c.Close())
	}
	if f.server != nil {
		f.server.Close()
	}
	return errors.Join(faults...)
}
