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

	timed        bool // At or In was given
	reserved     bool
	skipExisting bool
	tick         *tick // of a recurring task
}

// At starts the task at t, to the millisecond, by this machine's clock. Where no dispatcher runs, the task starts up to
// two seconds later; where the clock of the worker differs, by at most a quarter of a second more. A time in the past
// means now. With Reserved, the task takes its place in the waitlist now, and starts before tasks that are enqueued
// later.
func At(t time.Time) Option {
	return func(o *options) error {
		if o.timed {
			return invalid("at", "a task can have one time only")
		}
		o.At, o.timed = t, true
		return nil
	}
}

// In starts the task in d, as At does. Zero and negative mean now.
func In(d time.Duration) Option {
	return func(o *options) error { return At(time.Now().Add(d))(o) }
}

// StartBy ends the task as expired unless it starts before t, to the millisecond. The task goes to the archive and to
// the dead tasks, with an error that matches tasks.ErrExpired. What is reserved for it is released at t. An attempt
// after a failure has to start before t as well.
//
// If the waitlist of one of its limits is so long that the task is expected to start later than t, it is not
// enqueued. The error is then a *TooLateError. t must be in the future.
func StartBy(t time.Time) Option {
	return func(o *options) error {
		o.StartBy = t
		if t.IsZero() {
			return invalid("start_by", "must not be the zero time")
		}
		return nil
	}
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

// Unique refuses, with a *DuplicateError, another task of the same type and queue with this key. It does so for as
// long as the task waits or runs, however long that is. A task that ended, also one in the archive, refuses none. 1
// to 500 bytes. If EnqueueMany gets several tasks, their type must give the keys (tasks.Optioner).
//
// Not promised: a task that asynq's own tools or `headway dead requeue` run again after its end may meet a newer one
// with its key. So may a task that more than 20 workers died with.
func Unique(key string) Option {
	return func(o *options) error {
		o.Unique = key
		if strings.TrimSpace(key) == "" {
			return invalid("unique", "%q must not be blank", key)
		}
		return nil
	}
}

// Reserved reserves tokens now, and the task joins its waitlist at once: it is delivered once, when its turn comes. Of
// several charges, the task waits for the first one that has no room; the others are asked at the delivery. A task
// without a charge is enqueued as usual. It needs a Scheduler with a limiter, and a started worker or scheduler in the
// fleet.
func Reserved() Option {
	return func(o *options) error {
		o.reserved = true
		return nil
	}
}

// SkipExisting counts a task that exists already (asynq.ErrTaskIDConflict, ErrDuplicate) as success, with a nil info.
// So a whole batch can be sent again.
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
	if o.reserved && s.limiter == nil {
		faults = append(faults, invalid("reserved", "needs a scheduler with a limiter"))
	}
	if o.ID != "" && n > 1 {
		faults = append(faults, invalid("id", "%q can't be that of %d tasks; let the type give the IDs", o.ID, n))
	}
	if o.Unique != "" && n > 1 {
		faults = append(faults, invalid("unique", "%q can't be that of %d tasks; let the type give the keys", o.Unique, n))
	}
	if len(faults) > 0 {
		return o, fmt.Errorf("%w: %w", ErrInvalidOption, errors.Join(faults...))
	}
	return o, nil
}

// exists says whether the task was refused because it exists already.
func exists(err error) bool {
	return errors.Is(err, asynq.ErrTaskIDConflict) || errors.Is(err, ErrDuplicate)
}

// alone says whether the error is about one task: others are sent all the same.
func alone(err error) bool { return exists(err) || errors.Is(err, tasks.ErrExpired) }
