package worker

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/fleet/settings"
	"github.com/headway-go/headway/internal/line/asynqdb"
	"github.com/headway-go/headway/internal/line/dispatcher"
	"github.com/headway-go/headway/internal/line/envelope"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/scheduler"
)

// Limits adds limits to an asynq server of a program. Make the server with Server, put its handlers behind Middleware,
// call Start before the server starts, and Stop after its Shutdown. For another server each wait is a failure. Safe for
// concurrent use.
type Limits struct {
	client redis.UniversalClient
	guard  *guard

	checks     sync.Once   // of what the program left out
	configured atomic.Bool // Server was called
	started    atomic.Bool // Start was called
	wrapped    atomic.Bool // Middleware was called
	delivered  atomic.Int64
	queues     atomic.Pointer[[]string]
}

// check logs, at the first delivery of a task that may wait, what the program left out.
func (l *Limits) check(ctx context.Context) {
	if !l.configured.Load() {
		l.guard.log.LogAttrs(ctx, slog.LevelError, "the asynq server was not made by Limits.Server: asynq counts each wait "+
			"as a failure, and archives tasks that only wait",
			slog.String("add", "server := limits.Server(asynq.Config{...})"))
	}
	if !l.started.Load() {
		l.guard.log.LogAttrs(ctx, slog.LevelError, "Limits.Start was not called: this process promotes no waiting tasks, "+
			"and without another process they start minutes late",
			slog.String("add", "if err := limits.Start(ctx); err != nil { return err } // before server.Start"))
	}
}

// serve says from which queues the server takes.
func (l *Limits) serve(queues map[string]int) {
	names := slices.Sorted(maps.Keys(queues))
	l.queues.Store(&names)
}

// Adopt returns the limits of limiter for an existing asynq server on the same Redis. The zero Config limits only tasks
// that Headway enqueued. Config.Events are called for limited tasks. The record of a foreign task without a charge is
// made from asynq's archive, with its last error alone. The caller closes the client. The error joins a
// *reservations.FieldError for each fault of the config.
func Adopt(client redis.UniversalClient, limiter *reservations.Limiter, config Config) (*Limits, error) {
	var misplaced settings.Faults
	for _, setting := range []struct {
		field string
		given bool
	}{
		{"concurrency", config.Concurrency != 0},
		{"queues", config.Queues != nil},
		{"strict_priority", config.StrictPriority},
		{"shutdown_timeout", config.ShutdownTimeout != 0},
	} {
		if setting.given {
			misplaced.Add(setting.field, "is a setting of the asynq server: set it in its asynq.Config")
		}
	}
	l := &Limits{client: client}
	l.serve(map[string]int{envelope.QueueDefault: 1})
	served := func() []string { return *l.queues.Load() }
	g, _, err := newGuard(client, limiter, config, misplaced, chargesOr(config.Charge), served, nil)
	if err != nil {
		return nil, err
	}
	l.guard = g
	return l, nil
}

// charger returns the charges of a task.
type charger = func(*asynq.Task) ([]reservations.Charge, error)

// chargesOr asks charge for tasks that carry none and are not ours.
func chargesOr(charge charger) charger {
	return func(t *asynq.Task) ([]reservations.Charge, error) {
		if _, ours := t.Headers()[envelope.HeaderVersion]; ours || charge == nil {
			return envelope.Charges(t)
		}
		return charge(t)
	}
}

// Scheduler is that of the limits, e.g. to enqueue tasks.
func (l *Limits) Scheduler() *scheduler.Scheduler { return l.guard.scheduler }

// Middleware is an asynq.MiddlewareFunc: handlers behind it start when their charge allows it, and report what they
// used by Use. Tasks without a charge pass untouched, unless Headway enqueued them: then their count of retries is
// kept as well. Only where their handler returns reservations.RetryAfter they wait like others. Put it outermost, so
// that other middleware sees only tasks that run. A panic of a charged handler becomes a *PanicError.
func (l *Limits) Middleware(next asynq.Handler) asynq.Handler {
	l.wrapped.Store(true)
	return asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
		charges, err := l.guard.charges(t)
		if _, ours := t.Headers()[envelope.HeaderVersion]; !ours && err == nil && len(charges) == 0 {
			return l.guard.untouched(ctx, t, next)
		}
		l.checks.Do(func() { l.check(ctx) })
		return l.guard.process(ctx, t, func(d *delivery) (prepared, error) {
			return func(ctx context.Context) error { return next.ProcessTask(ctx, d.task) }, nil
		})
	})
}

// Server returns an asynq server with this config, in place of asynq.NewServerFromRedisClient. Its tasks wait without a
// failure, also on their last attempt; all else is as the program's own IsFailure and RetryDelayFunc say, or asynq's
// where it has none. An ErrorHandler is not called for tasks that wait. TaskCheckInterval and DelayedTaskCheckInterval
// become 50 ms and 1 s where they are unset. Server asks Redis for its clock, at most 2 seconds: a server whose machine
// is ahead leaves scheduled tasks to other machines.
func (l *Limits) Server(c asynq.Config) *asynq.Server {
	l.configured.Store(true)
	broker := asynqdb.ForServer(l.client, asynqdb.ServerConfig{
		Stopping: l.guard.stopping.Done(), Snoozes: &l.guard.snoozes,
	})
	return asynq.NewServerFromRedisClient(broker, l.config(c))
}

// config is the config of a server whose tasks may wait.
func (l *Limits) config(c asynq.Config) asynq.Config {
	isFailure, delay := c.IsFailure, c.RetryDelayFunc
	if delay == nil {
		delay = asynq.DefaultRetryDelayFunc
	}
	c.IsFailure = func(err error) bool {
		return dispatcher.IsFailure(err) && (isFailure == nil || isFailure(err))
	}
	c.RetryDelayFunc = func(n int, err error, t *asynq.Task) time.Duration {
		if errors.Is(err, dispatcher.ErrDeferred) {
			return 0 // its snooze has its own time
		}
		return delay(n, err, t)
	}
	if handler := c.ErrorHandler; handler != nil {
		c.ErrorHandler = asynq.ErrorHandlerFunc(func(ctx context.Context, t *asynq.Task, err error) {
			if !errors.Is(err, dispatcher.ErrDeferred) {
				handler.HandleError(ctx, t, err)
			}
		})
	}
	if c.TaskCheckInterval <= 0 {
		c.TaskCheckInterval = taskCheckInterval
	}
	if c.DelayedTaskCheckInterval <= 0 {
		c.DelayedTaskCheckInterval = delayedTaskCheckInterval
	}
	l.watchMiddleware(&c)
	queues := c.Queues
	if len(queues) == 0 {
		queues = map[string]int{envelope.QueueDefault: 1}
	}
	l.serve(queues)
	clocks := newClocks(l.client, l.guard.log)
	c.DelayedTaskCheckInterval = clocks.forwardEvery(context.Background(), queues, c.DelayedTaskCheckInterval)
	return c
}

// watchMiddleware logs once if the server runs its handlers without Middleware, which limits nothing. A mux calls
// Middleware at each delivery, so that this is known when the first delivery has ended: with more deliveries than the
// server runs at once.
func (l *Limits) watchMiddleware(c *asynq.Config) {
	base, most := c.BaseContext, int64(c.Concurrency)
	if base == nil {
		base = context.Background
	}
	if most < 1 {
		most = int64(runtime.NumCPU()) // as asynq
	}
	c.BaseContext = func() context.Context {
		if l.delivered.Add(1) == most+1 && !l.wrapped.Load() {
			l.guard.log.LogAttrs(context.Background(), slog.LevelError, "the handlers are not behind Limits.Middleware: all "+
				"tasks of this server are unlimited", slog.String("add", "mux.Use(limits.Middleware)"))
		}
		return base()
	}
}

// Start begins to promote waiting tasks; call it before the server's own start. The error says that Redis could not
// be reached, or the overrides could not be read. It matches scheduler.ErrSplit if the limiter's store is not the store
// of the fleet.
func (l *Limits) Start(ctx context.Context) error {
	return l.guard.start(ctx, func() error {
		l.started.Store(true)
		return nil
	})
}

// Stop waits for charged handlers and for settlements; call it after the server's Shutdown. When ctx ends first it
// returns an error that names what is left, and matches ErrLeftBehind. It may be called again, and without Start.
func (l *Limits) Stop(ctx context.Context) error {
	return errors.Join(l.guard.pending.wait(ctx), l.guard.stop(ctx))
}
