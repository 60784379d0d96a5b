package worker

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/fleet/deadletter"
	"github.com/headway-go/headway/internal/fleet/settings"
	"github.com/headway-go/headway/internal/line/envelope"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/scheduler"
)

const (
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
	// MaxRefusals is how often in a row a task may be refused by its provider (reservations.RetryAfter) without a retry
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
	// only reservations.Limiter.SetLimits changes the limits.
	Overrides func(context.Context) ([]reservations.Override, error)
	// FollowEvery is how often overrides are looked for. Defaults to 2 seconds.
	FollowEvery time.Duration
	// Dead, a deadtasks.Store, keeps a record of each archived task and of its failed attempts. The record is written
	// before asynq archives the task. While Dead does not answer, the task waits for it, at most 15 seconds; later its
	// record is made from asynq's archive. Defaults to none.
	Dead interface {
		EnsureIndexes(ctx context.Context) error
	}
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
	c.Concurrency = cmp.Or(c.Concurrency, settings.Concurrency)
	c.ShutdownTimeout = cmp.Or(c.ShutdownTimeout, settings.ShutdownTimeout)
	c.SettleTimeout = cmp.Or(c.SettleTimeout, settleTimeoutDefault)
	c.MaxRefusals = cmp.Or(c.MaxRefusals, maxRefusalsDefault)
	c.SweepEvery = cmp.Or(c.SweepEvery, sweepEveryDefault)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	c.Scheduler.Logger = cmp.Or(c.Scheduler.Logger, c.Logger)
	if len(c.Queues) == 0 {
		c.Queues = map[string]int{envelope.QueueDefault: 1}
	}
	c.Queues = maps.Clone(c.Queues)
	return c
}

// faults are all faults of the config except the scheduler's, each a *reservations.FieldError that names its field.
func (c Config) faults() settings.Faults {
	f := settings.Settings{
		Concurrency: c.Concurrency, Queues: c.Queues, ShutdownTimeout: c.ShutdownTimeout, MaxRefusals: c.MaxRefusals,
		Unserved: c.Unserved,
	}.Faults()
	settings.NotNegative(&f, "settle_timeout", c.SettleTimeout)
	settings.NotNegative(&f, "follow_every", c.FollowEvery)
	settings.NotNegative(&f, "sweep_every", c.SweepEvery)
	if _, ok := c.Dead.(deadletter.Source); c.Dead != nil && !ok {
		f.Add("dead", "%T must be a *deadtasks.Store", c.Dead)
	}
	return f
}
