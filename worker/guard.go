package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/fleet/deadletter"
	"github.com/headway-go/headway/internal/fleet/settings"
	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/internal/line/asynqdb"
	"github.com/headway-go/headway/internal/line/dispatcher"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/scheduler"
)

// guard is the middleware that every delivery passes. Worker and Limits both use it.
type guard struct {
	journal

	client     redis.UniversalClient
	limiter    *reservations.Limiter // nil: no limit is known here
	scheduler  *scheduler.Scheduler
	dispatcher *dispatcher.Dispatcher
	charges    func(*asynq.Task) ([]reservations.Charge, error)
	unserved   time.Duration // zero: tasks that no worker can serve wait on

	settler  *settler
	refusals *refusals
	records  *records
	trace    tracing
	sweeper  *sweeper // nil without records
	fleet    *fleet
	serving  chan struct{} // closed when deliveries may begin
	serve    func()        // closes serving, once
	follow   *follower     // nil without a limiter

	snoozes    asynqdb.Snoozes // the deliveries that end with a wait
	goroutines goroutines      // of deliveries
	deliveries atomic.Int64    // that asynq waits for
	pending    *pending
	stopping   context.Context //nolint:containedctx // ends when the process is about to end: no task is held any more
	cancel     context.CancelFunc
}

// newGuard returns the guard of a Worker or of Limits, and the config with its defaults. Misplaced settings are faults.
// Queues are the ones that are served, types the ones that have a handler.
func newGuard(
	client redis.UniversalClient, limiter *reservations.Limiter, c Config, misplaced settings.Faults, charges charger,
	queues, types func() []string,
) (*guard, Config, error) {
	found := append(misplaced, c.faults()...)
	c = c.withDefaults()
	sched, err := scheduler.New(client, limiter, c.Scheduler)
	if err = errors.Join(append(found, err)...); err != nil {
		return nil, c, fmt.Errorf("worker: invalid config: %w", err)
	}
	own, open := journal{log: c.Logger, events: c.Events}, &pending{}
	settler := &settler{
		journal: own, limiter: limiter, dispatcher: inside.Of(sched), pending: open, timeout: c.SettleTimeout,
	}
	g := &guard{
		journal: own, client: client, limiter: limiter, scheduler: sched, dispatcher: inside.Of(sched), charges: charges,
		unserved: c.Unserved, settler: settler, refusals: &refusals{settler: settler, most: c.MaxRefusals},
		trace:   newTracing(c.Scheduler.Tracer, client),
		fleet:   newFleet(client, limiter, types, c.Logger),
		follow:  newFollower(limiter, c.Overrides, c.FollowEvery, c.Logger),
		pending: open, serving: make(chan struct{}),
	}
	g.serve = sync.OnceFunc(func() { close(g.serving) })
	g.stopping, g.cancel = context.WithCancel(context.Background())
	g.records = &records{
		journal: own, inspector: asynq.NewInspectorFromRedisClient(client), pending: open, worker: g.fleet.name,
	}
	if dead, ok := c.Dead.(deadletter.Source); ok {
		g.records.store = dead.Recorder()
		g.sweeper = &sweeper{
			client: client, db: asynqdb.New(client), inspector: g.records.inspector, records: g.records.store,
			queues: queues, every: c.SweepEvery, log: c.Logger, seen: map[string]time.Time{},
		}
	}
	g.dispatcher.Loops = append(g.dispatcher.Loops, g.follow.run, g.sweeper.run, func(ctx context.Context) {
		select {
		case <-g.serving: // a process that takes no tasks is no worker of the fleet
			g.fleet.run(ctx)
		case <-ctx.Done():
		}
	})
	return g, c, nil
}

// start begins what runs beside deliveries, and calls serve when deliveries may begin. After an error nothing runs.
func (g *guard) start(ctx context.Context, serve func() error) error {
	if err := g.Dispatch(ctx); err != nil {
		return err
	}
	if err := serve(); err != nil {
		return errors.Join(err, g.scheduler.Stop(ctx))
	}
	g.serve()
	return nil
}

// Dispatch reads the overrides and starts the scheduler, which promotes waiting direct callers too. It takes no tasks.
// After an error nothing runs. Dispatch may be called again, and Start of the worker may follow. Stop ends both.
func (g *guard) Dispatch(ctx context.Context) error {
	if err := g.client.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("reach redis: %w", err)
	}
	if err := g.follow.load(ctx); err != nil {
		return fmt.Errorf("read overrides: %w", err)
	}
	if err := g.scheduler.Start(ctx); err != nil {
		return fmt.Errorf("start the scheduler: %w", err)
	}
	return nil
}

// stop ends what start began. The scheduler sends the last answers of buckets, even when the caller's time is over.
func (g *guard) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), schedulerStopTimeout)
	defer cancel()
	g.follow.stop()
	if err := g.scheduler.Stop(ctx); err != nil {
		return fmt.Errorf("stop the scheduler: %w", err)
	}
	return nil
}

// free returns how many tasks the process can take at once.
func (g *guard) free(concurrency int) int { return concurrency - int(g.deliveries.Load()) }
