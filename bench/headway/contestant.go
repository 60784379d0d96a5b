package headway

import (
	"context"
	"fmt"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"

	"github.com/headway-go/headway/bench/contest"
)

// contestant is Headway.
type contestant struct{}

// All returns Headway.
func All() []contest.Contestant { return []contest.Contestant{contestant{}} }

// Name implements contest.Contestant.
func (contestant) Name() string { return "headway" }

// About implements contest.Contestant.
func (contestant) About() string { return "Headway." }

// Producer implements contest.Contestant.
func (contestant) Producer(ctx context.Context, env contest.Env, probe *contest.Probe) (contest.Producer, error) {
	connections, err := connect(ctx, env, probe)
	if err != nil {
		return nil, err
	}
	if err = connections.buckets.EnsureIndexes(ctx); err != nil {
		return nil, fmt.Errorf("headway: %w", err)
	}
	way, err := scheduler.New(connections.redis, connections.limiter, scheduler.Config{Logger: logger()})
	if err != nil {
		return nil, fmt.Errorf("headway: %w", err)
	}
	return &producer{connections: connections, way: way}, nil
}

type producer struct {
	connections *connections
	way         *scheduler.Scheduler
}

// Enqueue implements contest.Producer.
func (p *producer) Enqueue(ctx context.Context, list []contest.Task) error {
	args := make([]tasks.Args, len(list))
	for i, t := range list {
		args[i] = Task(t)
	}
	if _, err := p.way.EnqueueMany(ctx, args); err != nil {
		return fmt.Errorf("headway: enqueue %d tasks: %w", len(list), err)
	}
	return nil
}

// Close implements contest.Producer.
func (p *producer) Close() error { return p.connections.close(context.Background()) }

// Work implements contest.Contestant.
func (contestant) Work(ctx context.Context, env contest.Env, probe *contest.Probe) error {
	connections, err := connect(ctx, env, probe)
	if err != nil {
		return err
	}
	defer func() { _ = connections.close(ctx) }()
	w, err := worker.New(connections.redis, connections.limiter, worker.Config{
		Concurrency: env.Slots, Queues: map[string]int{contest.QueueName: 1}, Logger: logger(),
		Events: []func(worker.Event){events(probe)},
	})
	if err != nil {
		return fmt.Errorf("headway: %w", err)
	}
	worker.Handle(w, func(ctx context.Context, job *worker.Job[Task]) error {
		used, failed := probe.Call(ctx, contest.Task(job.Args))
		if job.Args.Key != "" {
			job.Use(reservations.Tokens{meter: float64(used)})
		}
		return failed
	})
	if err = w.Start(ctx); err != nil {
		return fmt.Errorf("headway: %w", err)
	}
	probe.Ready()
	<-ctx.Done()
	return w.Stop(context.WithoutCancel(ctx))
}

// events counts each delivery, even if the worker sends the task back before its handler runs.
func events(probe *contest.Probe) func(worker.Event) {
	return func(e worker.Event) {
		switch e.Kind { //nolint:exhaustive // the others are no deliveries
		case worker.KindStarted:
			probe.Delivered()
			if e.Waited || e.Outcome.Hold > 0 {
				probe.Late(e.Lateness)
			}
		case worker.KindDeferred, worker.KindRejected:
			probe.Delivered()
		}
	}
}
