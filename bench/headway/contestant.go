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
type contestant struct {
	name, about string
	options     tasks.Options
}

// All returns the two ways to use Headway.
func All() []contest.Contestant {
	return []contest.Contestant{
		contestant{name: "headway", about: "Headway; the worker that takes a task reserves its tokens."},
		contestant{
			name: "headway-reserved", about: "Headway; tokens are reserved when the task is enqueued (tasks.Options.Reserved).",
			options: tasks.Options{Reserved: true},
		},
	}
}

// Name implements contest.Contestant.
func (c contestant) Name() string { return c.name }

// About implements contest.Contestant.
func (c contestant) About() string { return c.about }

// Producer implements contest.Contestant.
func (c contestant) Producer(ctx context.Context, env contest.Env, probe *contest.Probe) (contest.Producer, error) {
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
	return &producer{connections: connections, way: way, options: c.options}, nil
}

type producer struct {
	connections *connections
	way         *scheduler.Scheduler
	options     tasks.Options
}

// Enqueue implements contest.Producer.
func (p *producer) Enqueue(ctx context.Context, list []contest.Task) error {
	args := make([]tasks.Args, len(list))
	for i, t := range list {
		args[i] = Task(t)
	}
	if _, err := p.way.EnqueueMany(ctx, args, p.options); err != nil {
		return fmt.Errorf("headway: enqueue %d tasks: %w", len(list), err)
	}
	return nil
}

// Close implements contest.Producer.
func (p *producer) Close() error { return p.connections.close(context.Background()) }

// Work implements contest.Contestant.
func (c contestant) Work(ctx context.Context, env contest.Env, probe *contest.Probe) error {
	connections, err := connect(ctx, env, probe)
	if err != nil {
		return err
	}
	defer func() { _ = connections.close(ctx) }()
	limited := len(env.Limits) > 0
	w, err := worker.New(connections.redis, connections.limiter, worker.Config{
		Concurrency: env.Slots, Queues: map[string]int{contest.QueueName: 1}, Logger: logger(),
		Events: []func(worker.Event){events(probe, limited)},
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

// events counts each delivery, even if the worker sends the task back before its handler runs. Without limits no task
// joins a waitlist, and events counts only what other contestants count.
func events(probe *contest.Probe, limited bool) func(worker.Event) {
	return func(e worker.Event) {
		switch e.Kind { //nolint:exhaustive // the others are no deliveries
		case worker.KindStarted:
			probe.Delivered()
			if e.Waited || e.Outcome.Hold > 0 {
				probe.Late(e.Lateness)
			}
			if limited && !e.Waited {
				probe.Placed(1)
			}
		case worker.KindDeferred:
			probe.Delivered()
			if e.Outcome.State == reservations.StateReserved { // max_reserved is unlimited, so this is the first answer
				probe.Placed(1)
			}
		case worker.KindSorted:
			probe.Placed(e.Tasks)
		case worker.KindRejected:
			probe.Delivered()
		}
	}
}
