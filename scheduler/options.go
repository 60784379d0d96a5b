package scheduler

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
)

// Option is a choice for one call of Enqueue or EnqueueMany. It overrides the options of the task's type.
type Option func(*options) error

type options struct {
	tasks.Options

	at           time.Time // zero: now
	timed        bool      // At or In was given
	reserved     bool
	skipExisting bool
}

// At runs the task at t or up to a second later, by this machine's clock: asynq counts whole seconds. A time in the
// past means now.
func At(t time.Time) Option {
	return func(o *options) error {
		if o.timed {
			return invalid("at", "a task can have one time only")
		}
		o.at, o.timed = wholeSecondFrom(t), true
		return nil
	}
}

// In runs the task in d or up to a second later. Zero and negative mean now.
func In(d time.Duration) Option {
	return func(o *options) error { return At(time.Now().Add(d))(o) }
}

// wholeSecondFrom rounds up: asynq rounds down, and would deliver too early.
func wholeSecondFrom(t time.Time) time.Time {
	if whole := t.Truncate(time.Second); whole.Before(t) {
		return whole.Add(time.Second)
	}
	return t
}

// Queue puts the task into the queue of that name. Defaults to that of the task's type, else "default".
func Queue(name string) Option {
	return func(o *options) error {
		if strings.TrimSpace(name) == "" {
			return invalid("queue", "%q must not be blank", name)
		}
		o.Queue = name
		return nil
	}
}

// ID identifies the task: while asynq keeps a task of that ID, another one is refused with asynq.ErrTaskIDConflict. If
// EnqueueMany gets several tasks, their type must give the IDs (tasks.Optioner). Defaults to a random one.
func ID(id string) Option {
	return func(o *options) error {
		if strings.TrimSpace(id) == "" {
			return invalid("id", "%q must not be blank", id)
		}
		o.ID = id
		return nil
	}
}

// MaxRetry is how often the task runs again after a failure. Waiting for a limit is no failure. Zero means never.
// Defaults to that of the task's type, else tasks.MaxRetryDefault.
func MaxRetry(n int) Option {
	return func(o *options) error {
		if n < 0 || n > tasks.MaxRetryLargest {
			return invalid("max_retry", "%d must be between 0 and %d", n, tasks.MaxRetryLargest)
		}
		o.MaxRetry = n
		if n == 0 {
			o.MaxRetry = tasks.NoRetry
		}
		return nil
	}
}

// Timeout bounds one attempt. Must be positive; whole seconds, rounded up. Defaults to that of the task's type, else
// 30 minutes.
func Timeout(d time.Duration) Option {
	return func(o *options) error {
		o.Timeout = d
		return positive("timeout", d)
	}
}

// Retention keeps the task readable for d after it has finished. Must be positive; whole seconds, rounded up. Defaults
// to that of the task's type, else the task is not kept.
func Retention(d time.Duration) Option {
	return func(o *options) error {
		o.Retention = d
		return positive("retention", d)
	}
}

// Unique refuses, with asynq.ErrDuplicateTask, another task of the same type, payload and queue for ttl or until this
// task has finished. At least a second. Waiting does not extend it: choose ttl above the longest wait.
func Unique(ttl time.Duration) Option {
	return func(o *options) error {
		if ttl < time.Second {
			return invalid("unique", "%v must be at least 1s", ttl)
		}
		o.Unique = ttl
		return nil
	}
}

// Reserved reserves tokens now, and the task joins its waitlist at once: it is delivered once, when its turn comes. Of
// several charges, the task waits for the first one that has no room; the others are asked at the delivery. A task
// without a charge is enqueued as usual. Reserved can't be combined with At or In. It needs a Scheduler with a limiter,
// and a started worker or scheduler in the fleet.
func Reserved() Option {
	return func(o *options) error {
		o.reserved = true
		return nil
	}
}

// SkipExisting counts a task that exists already (asynq.ErrTaskIDConflict, asynq.ErrDuplicateTask) as success, with a
// nil info. So a whole batch can be sent again.
func SkipExisting() Option {
	return func(o *options) error {
		o.skipExisting = true
		return nil
	}
}

func invalid(field, format string, args ...any) error {
	return &reservations.FieldError{Field: field, Problem: fmt.Sprintf(format, args...)}
}

func positive(field string, d time.Duration) error {
	if d <= 0 {
		return invalid(field, "%v must be positive", d)
	}
	return nil
}

// collect applies the options for a call with n tasks. The error joins every fault and matches ErrInvalidOption.
func (s *Scheduler) collect(opts []Option, n int) (options, error) {
	var o options
	var faults []error
	for _, opt := range opts {
		if err := opt(&o); err != nil {
			faults = append(faults, err)
		}
	}
	if o.reserved && o.timed {
		faults = append(faults, invalid("reserved", "can't be combined with a time: the reservation gives the time"))
	}
	if o.reserved && s.limiter == nil {
		faults = append(faults, invalid("reserved", "needs a scheduler with a limiter"))
	}
	if o.ID != "" && n > 1 {
		faults = append(faults, invalid("id", "%q can't be that of %d tasks; let the type give the IDs", o.ID, n))
	}
	if len(faults) > 0 {
		return o, fmt.Errorf("%w: %w", ErrInvalidOption, errors.Join(faults...))
	}
	return o, nil
}

// exists says whether asynq refused the task because the task exists already.
func exists(err error) bool {
	return errors.Is(err, asynq.ErrTaskIDConflict) || errors.Is(err, asynq.ErrDuplicateTask)
}
