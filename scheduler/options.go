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

// Option is a choice for one call of Enqueue or EnqueueMany. It stands above what the type of the task says of itself.
type Option func(*options) error

type options struct {
	tasks.Options

	at           time.Time // zero: now
	timed        bool      // At or In was given
	reserved     bool
	skipExisting bool
}

// At has the task run at t or up to a second later, by this machine's clock: asynq counts whole seconds. A time that has passed means now.
func At(t time.Time) Option {
	return func(o *options) error {
		if o.timed {
			return invalid("at", "a task can have one time only")
		}
		o.at, o.timed = wholeSecondFrom(t), true
		return nil
	}
}

// In has the task run in d or up to a second later. Zero and negative mean now.
func In(d time.Duration) Option {
	return func(o *options) error { return At(time.Now().Add(d))(o) }
}

// wholeSecondFrom rounds up: asynq cuts down, and would deliver before the time.
func wholeSecondFrom(t time.Time) time.Time {
	if whole := t.Truncate(time.Second); whole.Before(t) {
		return whole.Add(time.Second)
	}
	return t
}

// Queue puts the task in the queue of that name. Defaults to what the type says, else "default".
func Queue(name string) Option {
	return func(o *options) error {
		if strings.TrimSpace(name) == "" {
			return invalid("queue", "%q must not be blank", name)
		}
		o.Queue = name
		return nil
	}
}

// ID identifies the task: while a task of that ID is kept, another is refused with asynq.ErrTaskIDConflict. For EnqueueMany
// with several tasks the type has to give the IDs (tasks.Optioner). Defaults to a random one.
func ID(id string) Option {
	return func(o *options) error {
		if strings.TrimSpace(id) == "" {
			return invalid("id", "%q must not be blank", id)
		}
		o.ID = id
		return nil
	}
}

// MaxRetry is how often the task is tried again after a failure; waiting for a limit uses none of it. Zero means none.
// Defaults to what the type says, else tasks.MaxRetryDefault.
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

// Timeout bounds one attempt. Must be positive; whole seconds, rounded up. Defaults to what the type says, else 30 minutes.
func Timeout(d time.Duration) Option {
	return func(o *options) error {
		o.Timeout = d
		return positive("timeout", d)
	}
}

// Retention keeps the task readable for d after it has finished. Must be positive; whole seconds, rounded up. Defaults to
// what the type says, else it is not kept.
func Retention(d time.Duration) Option {
	return func(o *options) error {
		o.Retention = d
		return positive("retention", d)
	}
}

// Unique refuses, with asynq.ErrDuplicateTask, another task of the same type, payload and queue for ttl or until this one has
// finished. At least a second. Waiting does not extend it: choose ttl above the longest wait.
func Unique(ttl time.Duration) Option {
	return func(o *options) error {
		if ttl < time.Second {
			return invalid("unique", "%v must be at least 1s", ttl)
		}
		o.Unique = ttl
		return nil
	}
}

// Reserved has tokens reserved now, before the task is sent: it goes straight to its time instead of through the queue first, and
// is delivered once where the plan is unlimited. Of several charges it is the first one that has the task wait; those behind it are
// asked when the task comes. Tasks without a charge are enqueued as usual. It can't be combined with
// At or In, and needs a Scheduler with a limiter, and a worker or scheduler somewhere that was started to wake tasks.
func Reserved() Option {
	return func(o *options) error {
		o.reserved = true
		return nil
	}
}

// SkipExisting takes it for success when a task is there already (asynq.ErrTaskIDConflict, asynq.ErrDuplicateTask): its info
// is nil. It makes sending a whole batch again harmless.
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

// exists says whether asynq refused the task because it has it already.
func exists(err error) bool {
	return errors.Is(err, asynq.ErrTaskIDConflict) || errors.Is(err, asynq.ErrDuplicateTask)
}
