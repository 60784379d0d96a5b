package worker

import (
	"context"
	"errors"
	"fmt"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/scheduler"
)

// newGuard returns the guard of a Worker or of Limits, and the config with its defaults. Misplaced settings are faults.
// Queues are the ones that are served, types the ones that have a handler.
func newGuard(
	client redis.UniversalClient, limiter *reservations.Limiter, c Config, misplaced faults, charges charger,
	queues, types func() []string,
) (*guard, Config, error) {
	if err := errors.Join(misplaced.err(), c.Validate()); err != nil {
		return nil, c, err
	}
	c = c.withDefaults()
	sched, err := scheduler.New(client, limiter, c.Scheduler)
	if err != nil {
		return nil, c, err
	}
	g := &guard{
		client: client, limiter: limiter, scheduler: sched, engine: sched.Engine(),
		inspector: asynq.NewInspectorFromRedisClient(client),
		trace:     newTracing(c.Scheduler.Tracer, client), charges: charges, settleTimeout: c.SettleTimeout,
		maxRefusals: c.MaxRefusals, log: c.Logger, events: c.Events, lateMost: reservations.LateMost,
		unserved: c.Unserved,
		fleet:    newFleet(client, limiter, types, c.Logger),
		follow:   newFollower(limiter, c.Overrides, c.FollowEvery, c.Logger),
	}
	g.stopping, g.cancel = context.WithCancel(context.Background())
	g.keep(c.Dead, c.SweepEvery, queues)
	g.engine.Loops = append(g.engine.Loops, g.follow.run, g.sweeper.run, g.fleet.run)
	return g, c, nil
}

// start begins what runs beside deliveries, and calls serve when deliveries may begin. After an error nothing runs.
func (g *guard) start(ctx context.Context, serve func() error) error {
	if err := g.client.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("reach redis: %w", err)
	}
	if err := g.follow.load(ctx); err != nil {
		return fmt.Errorf("read overrides: %w", err)
	}
	if err := g.scheduler.Start(ctx); err != nil {
		return fmt.Errorf("start the scheduler: %w", err)
	}
	if err := serve(); err != nil {
		return errors.Join(err, g.scheduler.Stop(ctx))
	}
	return nil
}

// stop ends what start began. The scheduler sends the last answers of buckets, even when the caller's time is over.
func (g *guard) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), schedulerStopTimeout)
	defer cancel()
	if err := g.scheduler.Stop(ctx); err != nil {
		return fmt.Errorf("stop the scheduler: %w", err)
	}
	return nil
}
