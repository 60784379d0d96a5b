package headway

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/redisstore"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/worker"
)

// closeTimeout bounds Close.
const closeTimeout = 10 * time.Second

// Client enqueues tasks, runs them, makes direct calls, and says what waits and why. Safe for concurrent use.
type Client struct {
	redis     redis.UniversalClient
	limiter   *reservations.Limiter
	worker    *worker.Worker
	inspector *asynq.Inspector

	dispatches atomic.Bool // the dispatcher was started for direct calls
	closed     atomic.Bool
}

// New returns a client on the Redis that asynq uses. It sends nothing yet. The error joins a *reservations.FieldError
// for each fault of the config.
//
// A client enqueues at once, and runs tasks during Run. Run and Do refuse a Redis that may evict buckets, by
// redisstore.ErrEvicts, unless Config.Store has them. Client.Close ends a client that makes direct calls and does not
// run. The Redis client stays the caller's: close it last.
func New(client redis.UniversalClient, config Config) (*Client, error) {
	limiter, c, err := config.open(client)
	if err != nil {
		return nil, err
	}
	w, err := worker.New(client, limiter, c)
	if err != nil {
		return nil, err
	}
	w.Scheduler().TakeCallers()
	return &Client{
		redis: client, limiter: limiter, worker: w, inspector: asynq.NewInspectorFromRedisClient(client),
	}, nil
}

// Adopt adds limits to an asynq server that exists, as worker.Adopt does: Config.Worker.Charge says what a task takes.
// It must be there, because without it the tasks of the program would be unlimited. Errors are as for New.
func Adopt(client redis.UniversalClient, config Config) (*worker.Limits, error) {
	if config.Worker.Charge == nil {
		return nil, &reservations.FieldError{Field: "charge", Problem: "must be there, because without it all tasks of " +
			"the program are unlimited; it returns no charges for an unlimited task"}
	}
	limiter, c, err := config.open(client)
	if err != nil {
		return nil, err
	}
	return worker.Adopt(client, limiter, c)
}

// open returns the limiter of the config, and the config of the worker, which follows the overrides of the store.
func (c Config) open(client redis.UniversalClient) (*reservations.Limiter, worker.Config, error) {
	if client == nil {
		return nil, c.Worker, errors.New("headway: the Redis client is nil")
	}
	store := c.Store
	if store == nil && c.file != "" && c.inMongo {
		return nil, c.Worker, fmt.Errorf("headway: buckets: %s keeps the buckets in MongoDB: set Config.Store to a "+
			"mongostore.Store, or write `buckets: redis` there", c.file)
	}
	if store == nil {
		store = redisstore.New(client)
	}
	if o, ok := store.(interface {
		Overrides(ctx context.Context) ([]reservations.Override, error)
	}); ok && c.Worker.Overrides == nil {
		c.Worker.Overrides = o.Overrides
	}
	limiter, err := reservations.New(store, c.limits(), c.Reservations)
	return limiter, c.Worker, err
}

// Handle lets the client run tasks of type T, as worker.Handle does. It panics after Run, and if T has a handler.
func Handle[T tasks.Args](c *Client, handler func(ctx context.Context, job *Job[T]) error) {
	worker.Handle(c.worker, handler)
}

// Run takes tasks and runs their handlers until ctx ends. Then it waits for running handlers, as worker.Worker.Run
// does, and closes the client. It also dispatches waiting tasks, for the whole fleet. Errors are as for
// worker.Worker.Run: worker.ErrNoHandlers where no handler was registered.
func (c *Client) Run(ctx context.Context) error {
	defer c.closed.Store(true)
	return c.worker.Run(ctx)
}

// Close ends the waits of direct callers and what Do has started. After Run it does nothing.
func (c *Client) Close(ctx context.Context) error {
	if c.closed.Swap(true) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	return c.worker.Stop(ctx)
}

// SetLimits replaces the limits by the limits of a config, e.g. one that Load has read again. Waiting tasks start by
// the new ones. After an error nothing has changed.
func (c *Client) SetLimits(config Config) error { return c.limiter.SetLimits(config.limits()) }

// Do waits until all charges have started, calls, and settles, as reservations.Limiter.Do does. The caller waits in
// line with the tasks of the fleet. The first Do of a client that does not run starts a dispatcher, so that callers
// are promoted without a worker: the error matches scheduler.ErrSplit if the fleet has its buckets elsewhere.
func (c *Client) Do(ctx context.Context, charges []Charge, call func(context.Context) (Tokens, error)) error {
	if c.closed.Load() {
		return fmt.Errorf("headway: the client is closed: %w", scheduler.ErrStopped)
	}
	if !c.dispatches.Load() {
		if err := inside.Of(c.worker).Dispatch(ctx); err != nil {
			return err
		}
		c.dispatches.Store(true)
	}
	return c.limiter.Do(ctx, charges, call)
}

// Worker is the worker of the client.
func (c *Client) Worker() *worker.Worker { return c.worker }

// Scheduler is the scheduler of the client.
func (c *Client) Scheduler() *scheduler.Scheduler { return c.worker.Scheduler() }

// Limiter is the limiter of the client. Its callers wait in line with the tasks of the fleet.
func (c *Client) Limiter() *reservations.Limiter { return c.limiter }
