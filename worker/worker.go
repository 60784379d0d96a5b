package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/fleet/settings"
	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/internal/line/asynqdb"
	"github.com/headway-go/headway/internal/line/dispatcher"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/tasks"
)

// stopGrace is what Run allows beyond ShutdownTimeout, for settlements and for handlers to see that their context has
// ended.
const stopGrace = 5 * time.Second

// schedulerStopTimeout bounds the end of the scheduler.
const schedulerStopTimeout = 5 * time.Second

type holder = inside.Holder[*guard]

// Worker is an asynq server whose tasks keep their limits. Its methods are safe for concurrent use.
type Worker struct {
	holder // of the guard, for Headway's own packages

	config Config
	client redis.UniversalClient
	server *asynq.Server // nil until Start
	broker *asynqdb.Server
	quiet  func() // ends the listening of broker; nil until Start
	guard  *guard

	handlers map[string]registration // turn guards it until Start; from then on it stays as it is

	turn    chan struct{} // holds one: Start keeps it while Redis answers; guards what is below
	started bool
	closed  chan struct{} // nil until Stop; closed when the server has ended
}

// New returns a worker that takes its tasks from Redis and asks limiter before it starts them. A nil limiter knows no
// limits: it returns tasks that have a charge to the queue. The client stays the caller's: close it after Stop, and not
// after ErrLeftBehind. The error joins
// a *reservations.FieldError for each fault of the config.
func New(client redis.UniversalClient, limiter *reservations.Limiter, config Config) (*Worker, error) {
	w := &Worker{client: client, handlers: map[string]registration{}, turn: make(chan struct{}, 1)}
	queues := func() []string { return slices.Sorted(maps.Keys(w.config.Queues)) }
	types := func() []string { return slices.Sorted(maps.Keys(w.handlers)) }
	var misplaced settings.Faults
	if config.Charge != nil {
		misplaced.Add("charge", "is for Adopt: the task types of a worker implement tasks.Charger")
	}
	var err error
	if w.guard, w.config, err = newGuard(client, limiter, config, misplaced, w.charges, queues, types); err != nil {
		return nil, err
	}
	w.holder = inside.Hold(w.guard)
	w.guard.goroutines = goroutines{next: make(chan func()), stop: w.guard.stopping.Done()}
	w.broker = asynqdb.ForServer(client, asynqdb.ServerConfig{
		Stopping: w.guard.stopping.Done(), Queues: queues(), Snoozes: &w.guard.snoozes,
		Free: func() int { return w.guard.free(w.config.Concurrency) },
	})
	return w, nil
}

// newServer makes asynq's server as the config says. How often it forwards scheduled tasks depends on this machine's
// clock.
func (w *Worker) newServer(ctx context.Context) *asynq.Server {
	return asynq.NewServerFromRedisClient(w.broker, asynq.Config{
		Concurrency:       w.config.Concurrency,
		Queues:            w.config.Queues,
		StrictPriority:    w.config.StrictPriority,
		ShutdownTimeout:   w.config.ShutdownTimeout,
		TaskCheckInterval: taskCheckInterval,
		DelayedTaskCheckInterval: newClocks(w.client, w.config.Logger).
			forwardEvery(ctx, w.config.Queues, delayedTaskCheckInterval),
		IsFailure:      dispatcher.IsFailure,
		RetryDelayFunc: dispatcher.RetryDelay,
		Logger:         asynqLogger{log: w.config.Logger},
		LogLevel:       asynq.DebugLevel, // the logger leaves out what is below its own level
	})
}

// Scheduler is the worker's own, e.g. to enqueue tasks from a handler.
func (w *Worker) Scheduler() *scheduler.Scheduler { return w.guard.scheduler }

func (w *Worker) register(name string, r registration) {
	w.turn <- struct{}{}
	defer func() { <-w.turn }()
	if w.started {
		panic(fmt.Sprintf("worker: Handle: %q after Start", name))
	}
	if _, twice := w.handlers[name]; twice {
		panic(fmt.Sprintf("worker: Handle: %q twice", name))
	}
	w.handlers[name] = r
}

// Start begins to take tasks and returns. Ctx bounds only the start: the worker runs until Stop. The error matches
// ErrNoHandlers, or scheduler.ErrSplit if the limiter's store is not the store of the fleet. Other errors: the worker
// was started before, Redis could not be reached, or the overrides could not be read.
func (w *Worker) Start(ctx context.Context) error {
	w.turn <- struct{}{}
	defer func() { <-w.turn }()
	if w.started || w.closed != nil {
		return errStarted
	}
	if len(w.handlers) == 0 {
		return ErrNoHandlers
	}
	err := w.guard.start(ctx, func() error {
		w.server = w.newServer(ctx)
		w.quiet = w.broker.Listen(ctx)
		if err := w.server.Start(asynq.HandlerFunc(w.process)); err != nil {
			w.quiet()
			return fmt.Errorf("start server: %w", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	w.started = true
	w.config.Logger.LogAttrs(ctx, slog.LevelInfo, "worker started",
		slog.Int("concurrency", w.config.Concurrency), slog.Any("queues", w.config.Queues),
		slog.Int("task_types", len(w.handlers)))
	return nil
}

// Run starts the worker, waits until ctx is done and stops it, for which it allows ShutdownTimeout and five seconds
// more. Errors are the ones of Start and Stop.
func (w *Worker) Run(ctx context.Context) error {
	if err := w.Start(ctx); err != nil {
		return err
	}
	<-ctx.Done()
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.config.ShutdownTimeout+stopGrace)
	defer cancel()
	return w.Stop(stop)
}

// Stop takes no more tasks and lets running handlers go on for ShutdownTimeout. It then requeues the tasks of
// handlers that still run, with no retry used, and waits for handlers and settlements to end. Held tasks go back to
// their places at once.
//
// If ctx ends first, Stop returns an error that names the unfinished tasks and settlements, and matches ErrLeftBehind;
// nothing is lost. Then asynq's server may still stop, and panics if its client is closed. Stop may be called again to
// go on waiting, and without Start.
func (w *Worker) Stop(ctx context.Context) error {
	closed := w.close(ctx)
	var err error
	select {
	case <-closed:
		err = w.guard.pending.wait(ctx)
	case <-ctx.Done():
		err = cmp.Or(w.guard.pending.late(ctx), fmt.Errorf("%w: stop server: %w", ErrLeftBehind, context.Cause(ctx)))
	}
	if err != nil {
		w.config.Logger.LogAttrs(ctx, slog.LevelError, "worker stopped too early", slog.Any("error", err))
	}
	return errors.Join(err, w.guard.stop(ctx))
}

// close ends the server in the background, once: asynq's Shutdown knows no context.
func (w *Worker) close(ctx context.Context) <-chan struct{} {
	w.turn <- struct{}{}
	defer func() { <-w.turn }()
	if w.closed != nil {
		return w.closed
	}
	w.closed = make(chan struct{})
	w.guard.cancel()
	if !w.started {
		close(w.closed)
		return w.closed
	}
	w.config.Logger.LogAttrs(ctx, slog.LevelInfo, "worker stops", slog.Int("running_tasks", w.guard.pending.running()),
		slog.Duration("shutdown_timeout", w.config.ShutdownTimeout))
	go func() { //nolint:contextcheck // goes on after ctx
		defer close(w.closed)
		w.server.Shutdown()
		w.quiet()
		w.broker.PutBack()
	}()
	return w.closed
}

// process is the server's handler.
func (w *Worker) process(ctx context.Context, t *asynq.Task) error {
	return w.guard.process(ctx, t, w.prepare)
}

func (w *Worker) prepare(d *delivery) (prepared, error) {
	r, ok := w.handlers[d.task.Type()]
	if !ok {
		return nil, tasks.Permanent(fmt.Errorf("%w: %q", errUnknownType, d.task.Type()))
	}
	return r.prepare(d)
}

func (w *Worker) charges(t *asynq.Task) ([]reservations.Charge, error) {
	r, ok := w.handlers[t.Type()]
	if !ok { // not of a delivery: prepare has seen to it
		return nil, fmt.Errorf("%w: %q", errUnknownType, t.Type())
	}
	return r.charges(t)
}
