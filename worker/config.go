package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/deadletter"
	"github.com/headway-go/headway/internal/envelope"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/tasks"
)

const (
	// ConcurrencyDefault is how many tasks a worker runs at once where Config names no number. Waiting tasks do not count.
	ConcurrencyDefault = 50
	// concurrencyMost bounds Config.Concurrency.
	concurrencyMost = 100_000
	// weightMost bounds the weights of Config.Queues: asynq makes a list with one name for each unit of weight, each
	// time it takes a task.
	weightMost = 1000
	// ShutdownTimeoutDefault is how long running handlers may go on when the worker stops, where Config names no time.
	ShutdownTimeoutDefault = 30 * time.Second
	// settleTimeoutDefault is how long a settlement is tried while the store is unavailable.
	settleTimeoutDefault = time.Minute
	// maxRefusalsDefault is how often a task may be refused by its provider until that counts as a failure.
	maxRefusalsDefault = 20
	// taskCheckInterval is how often a server looks for tasks that finds none and receives no messages: asynq's default of
	// a second would make promoted tasks late. An idle Worker does not look so often, see asynqdb.Server.Listen.
	taskCheckInterval = 50 * time.Millisecond
	// delayedTaskCheckInterval is how often asynq's forwarder looks for tasks that no dispatcher promoted: the safety
	// net.
	delayedTaskCheckInterval = time.Second
)

// ErrInvalidConfig is matched by every fault of a Config.
var ErrInvalidConfig = errors.New("worker: invalid config")

// Config holds the settings of a Worker or of Limits. The zero value is ready to use.
//
// Concurrency, Queues, StrictPriority and ShutdownTimeout are for a Worker. Limits have them from their asynq server,
// and Adopt refuses them. Charge is for Limits, and New refuses it.
type Config struct {
	// Concurrency is how many tasks run at once. Defaults to 50.
	Concurrency int
	// Queues are the queues to work on and their weights: tasks of a queue with weight 6 are taken six times as often
	// as tasks of a queue with weight 1. Defaults to the queue "default" alone.
	Queues map[string]int
	// StrictPriority takes tasks from a queue only while all queues with a larger weight are empty. Defaults to false.
	StrictPriority bool
	// ShutdownTimeout is how long running handlers may go on when the worker stops; then their contexts end and their
	// tasks go back to the queue, with no retry used. Defaults to 30 seconds.
	ShutdownTimeout time.Duration
	// Charge returns the charges of a task that the program itself enqueues with asynq, as tasks.Charger does; none means
	// that the task is not limited. An error is a failure of the task, as one of its handler; mark it by tasks.Permanent
	// if no retry helps. Charge is not called for tasks of Headway, which carry their charges. Must be safe for
	// concurrent use. Defaults to none.
	Charge func(*asynq.Task) ([]reservations.Charge, error)
	// SettleTimeout is how long one settlement is tried while the store is unavailable; then the estimate stays
	// charged. Defaults to 1 minute.
	SettleTimeout time.Duration
	// MaxRefusals is how often in a row a task may be refused by its provider (tasks.RetryAfter) without a retry
	// used; the next refusal is a failure, and resets the count. Refusals for a quota or a key are no failures of a
	// limited task, however many. The count is kept in Redis, until an hour after the end of the wait. Defaults to 20.
	MaxRefusals int
	// Unserved is how long a task waits for a worker that can serve it: one with its type, its limits and their meters.
	// A task that workers have returned for so long is archived, unless a live worker can serve it. Defaults to zero:
	// the task waits, and only a person ends it.
	Unserved time.Duration
	// Overrides returns the rates that were set while the fleet runs, e.g. the method of a mongostore.Store. They are read
	// before the first task starts, and then followed. With an error, the list holds the readable ones, and is nil if
	// none could be read: then the last known ones stay in force. Must be safe for concurrent use. Defaults to none: then
	// only SetLimits changes the limits.
	Overrides func(context.Context) ([]reservations.Override, error)
	// FollowEvery is how often overrides are looked for. Defaults to 2 seconds.
	FollowEvery time.Duration
	// Dead, a deadtasks.Store, keeps a record of each archived task and of its failed attempts. The record is written
	// before asynq archives the task. While Dead does not answer, the task waits for it, at most 15 seconds; later its
	// record is made from asynq's archive. Defaults to none.
	Dead deadletter.Source
	// SweepEvery is how often asynq's archive is searched for tasks without a record, which asynq or a person
	// archived. Defaults to 30 seconds.
	SweepEvery time.Duration
	// Scheduler is the config of the dispatcher. Its Logger defaults to Logger.
	Scheduler scheduler.Config
	// Logger gets a line for each event of a task. Waits and starts are at debug level, ends at info, failures at warn,
	// archived tasks at error. Payloads are never logged. Defaults to slog.Default().
	Logger *slog.Logger
	// Events are called at each step of a task, one after the other, on the task's path and from many goroutines at
	// once: they must not block. A panic in one is logged, and changes nothing for the task. Defaults to none.
	Events []func(Event)
}

// withDefaults returns a copy in which zero values are the defaults.
func (c Config) withDefaults() Config {
	c.Concurrency = cmp.Or(c.Concurrency, ConcurrencyDefault)
	c.ShutdownTimeout = cmp.Or(c.ShutdownTimeout, ShutdownTimeoutDefault)
	c.SettleTimeout = cmp.Or(c.SettleTimeout, settleTimeoutDefault)
	c.MaxRefusals = cmp.Or(c.MaxRefusals, maxRefusalsDefault)
	c.SweepEvery = cmp.Or(c.SweepEvery, sweepEveryDefault)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	c.Scheduler.Logger = cmp.Or(c.Scheduler.Logger, c.Logger)
	if len(c.Queues) == 0 {
		c.Queues = map[string]int{tasks.QueueDefault: 1}
	}
	c.Queues = maps.Clone(c.Queues)
	return c
}

// Validate reports every fault, each a *reservations.FieldError that names its field; the error matches
// ErrInvalidConfig.
func (c Config) Validate() error {
	var f faults
	if c.Concurrency < 0 || c.Concurrency > concurrencyMost {
		f.add("concurrency", "%d must be from 1 to %d", c.Concurrency, concurrencyMost)
	}
	for _, queue := range slices.Sorted(maps.Keys(c.Queues)) {
		if strings.TrimSpace(queue) == "" {
			f.add("queues", "queue name %q must not be blank", queue)
		} else if err := envelope.Validate(tasks.Options{Queue: queue}); err != nil {
			f.add("queues", "%v", err)
		}
		if weight := c.Queues[queue]; weight <= 0 || weight > weightMost {
			f.add("queues."+queue, "weight %d must be from 1 to %d", weight, weightMost)
		}
	}
	notNegative(&f, "shutdown_timeout", c.ShutdownTimeout)
	notNegative(&f, "settle_timeout", c.SettleTimeout)
	notNegative(&f, "follow_every", c.FollowEvery)
	notNegative(&f, "sweep_every", c.SweepEvery)
	notNegative(&f, "max_refusals", c.MaxRefusals)
	notNegative(&f, "unserved", c.Unserved)
	f = append(f, c.Scheduler.Validate())
	return f.err()
}

// faults gathers what is wrong with a config.
type faults []error

func (f *faults) add(field, format string, args ...any) {
	*f = append(*f, &reservations.FieldError{Field: field, Problem: fmt.Sprintf(format, args...)})
}

func notNegative[N int | time.Duration](f *faults, field string, n N) {
	if n < 0 {
		f.add(field, "%v must not be negative", n)
	}
}

func (f *faults) err() error {
	if err := errors.Join(*f...); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidConfig, err)
	}
	return nil
}
