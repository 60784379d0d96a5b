package tasks

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/reservations"
)

const (
	// QueueDefault is the default queue.
	QueueDefault = "default"
	// MaxRetryDefault is the default number of retries of a failed task.
	MaxRetryDefault = 25
	// MaxRetryLargest is the largest allowed number of retries.
	MaxRetryLargest = 1_000_000
	// NoRetry as Options.MaxRetry archives a task at its first failure.
	NoRetry = -1
	// QueueLongest is the length of the longest Options.Queue, in bytes.
	QueueLongest = 200
	// IDLongest is the length of the longest Options.ID, in bytes.
	IDLongest = 512
	// queueReserved begins the names of queues that Headway has for itself.
	queueReserved = "headway:"
	// UniqueLongest is the length of the longest Options.Unique, in bytes.
	UniqueLongest = 500
	// Slack is asynq's count of retries minus Headway's count. Deferrals use none of it. A worker that dies uses one,
	// so a task that kills every worker ends in the archive.
	Slack = 20
)

// Options are the options of a task. The zero value of each field is its default.
type Options struct {
	// Queue is the name of the queue: at most QueueLongest bytes of UTF-8 without control characters. Defaults to
	// QueueDefault.
	Queue string
	// ID identifies the task. While asynq stores a task with this ID, a second one is refused with
	// asynq.ErrTaskIDConflict. Defaults to a random ID.
	ID string
	// MaxRetry is how often the task is retried after a failure. Waiting is not a failure. Defaults to
	// MaxRetryDefault; NoRetry means no retry.
	MaxRetry int
	// Timeout bounds one attempt, from the call of the handler. Defaults to 30 minutes. Whole seconds, rounded up.
	Timeout time.Duration
	// Retention is how long a finished task stays readable. Defaults to zero. Whole seconds, rounded up.
	Retention time.Duration
	// Unique is a key. While a task of this type, queue and key waits or runs, another one is refused. At most
	// UniqueLongest bytes. Only a scheduler.Scheduler checks it. Defaults to no key.
	Unique string
	// At is the earliest start of the task, to the millisecond. Zero, and a time in the past, mean now.
	At time.Time
	// StartBy is the latest start of the task, to the millisecond. A task that does not start by then ends as expired
	// (ErrExpired), and so does a retry. It must not be before At. Defaults to no such time.
	StartBy time.Time
}

// With returns o, overridden by the fields that over sets.
func (o Options) With(over Options) Options {
	return Options{
		Queue:     cmp.Or(over.Queue, o.Queue),
		ID:        cmp.Or(over.ID, o.ID),
		MaxRetry:  cmp.Or(over.MaxRetry, o.MaxRetry),
		Timeout:   cmp.Or(over.Timeout, o.Timeout),
		Retention: cmp.Or(over.Retention, o.Retention),
		Unique:    cmp.Or(over.Unique, o.Unique),
		At:        cmp.Or(over.At, o.At),
		StartBy:   cmp.Or(over.StartBy, o.StartBy),
	}
}

// Retries returns the effective number of retries: zero for NoRetry, MaxRetryDefault for zero.
func (o Options) Retries() int {
	if o.MaxRetry == NoRetry {
		return 0
	}
	return cmp.Or(o.MaxRetry, MaxRetryDefault)
}

// Validate joins all faults, each a *reservations.FieldError with its field.
func (o Options) Validate() error {
	var faults []error
	fault := func(field, format string, args ...any) {
		faults = append(faults, &reservations.FieldError{Field: field, Problem: fmt.Sprintf(format, args...)})
	}
	name := func(field, value string, most int) {
		switch problem := reservations.NameProblem(field, value, most); {
		case problem != "":
			fault(field, "%s", problem)
		case value != "" && strings.TrimSpace(value) == "":
			fault(field, "%q must not be blank", value)
		}
	}
	name("queue", o.Queue, QueueLongest)
	if strings.HasPrefix(o.Queue, queueReserved) || strings.ContainsAny(o.Queue, "{}") {
		fault("queue", "%q must not begin with %q, and hold no braces: they choose a node of Redis",
			o.Queue, queueReserved)
	}
	name("id", o.ID, IDLongest)
	name("unique", o.Unique, UniqueLongest)
	if o.MaxRetry < NoRetry || o.MaxRetry > MaxRetryLargest {
		fault("max_retry", "%d must be between 0 and %d, or NoRetry (-1) for none", o.MaxRetry, MaxRetryLargest)
	}
	for field, d := range map[string]time.Duration{"timeout": o.Timeout, "retention": o.Retention} {
		if d < 0 || d > reservations.MaxWait {
			fault(field, "%v must not be negative, and at most %v", d, reservations.MaxWait)
		}
	}
	for field, t := range map[string]time.Time{"at": o.At, "start_by": o.StartBy} {
		if t.After(latest()) {
			fault(field, "%s must not be after %s", clock(t), clock(latest()))
		}
	}
	if !o.StartBy.IsZero() && o.StartBy.Before(o.At) {
		fault("start_by", "%s must not be before the earliest start of the task, %s", clock(o.StartBy), clock(o.At))
	}
	return errors.Join(faults...)
}

// Asynq returns the options for asynq's client: MaxRetry plus Slack, and all other set fields but At, StartBy and
// Unique.
func (o Options) Asynq() []asynq.Option {
	options := []asynq.Option{asynq.MaxRetry(o.Retries() + Slack), asynq.Queue(cmp.Or(o.Queue, QueueDefault))}
	if o.ID != "" {
		options = append(options, asynq.TaskID(o.ID))
	}
	if o.Timeout > 0 {
		options = append(options, asynq.Timeout(wholeSeconds(o.Timeout)))
	}
	if o.Retention > 0 {
		options = append(options, asynq.Retention(wholeSeconds(o.Retention)))
	}
	return options
}

// wholeSeconds rounds up, because asynq truncates: half a second would become zero, which means none.
func wholeSeconds(d time.Duration) time.Duration {
	if whole := d.Truncate(time.Second); whole < d {
		return whole + time.Second
	}
	return d
}
