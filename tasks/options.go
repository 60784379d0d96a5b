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
	// QueueDefault is the queue of tasks that name none.
	QueueDefault = "default"
	// MaxRetryDefault is how often a failed task is retried unless its options say otherwise.
	MaxRetryDefault = 25
	// MaxRetryLargest is the largest number of retries that can be asked for.
	MaxRetryLargest = 1_000_000
	// NoRetry as Options.MaxRetry lets a task fail for good at its first failure.
	NoRetry = -1
	// QueueLongest is the length of the longest Options.Queue, in bytes.
	QueueLongest = 200
	// IDLongest is the length of the longest Options.ID, in bytes.
	IDLongest = 512
	// queueReserved begins the names of queues that Headway has for itself.
	queueReserved = "headway:"
	// UniqueLongest is the length of the longest Options.Unique, in bytes.
	UniqueLongest = 500
	// Slack is by how much asynq's own count of retries is above ours. Deferrals use none of it. A worker that dies uses one,
	// so a task that kills every worker ends in the archive.
	Slack = 20
)

// Options say how a task is kept and retried. The zero value of each field is its default.
type Options struct {
	// Queue is the name of the queue: at most QueueLongest bytes of UTF-8 without control characters. Defaults to
	// QueueDefault.
	Queue string
	// ID identifies the task; a second task with the ID of one that is still kept is refused with asynq.ErrTaskIDConflict. Defaults to a
	// random one.
	ID string
	// MaxRetry is how often the task is tried again after a failure; having to wait is none. Defaults to MaxRetryDefault; NoRetry means none.
	MaxRetry int
	// Timeout bounds one attempt, from the call of the handler. Defaults to 30 minutes. Whole seconds, rounded up.
	Timeout time.Duration
	// Retention is how long a finished task stays readable. Defaults to not at all. Whole seconds, rounded up.
	Retention time.Duration
	// Unique is a key: while a task of this type, queue and key waits or runs, however long, another one is refused.
	// At most UniqueLongest bytes. Only a scheduler.Scheduler checks it. Defaults to not unique.
	Unique string
	// At is when the task may start at the earliest, to the millisecond. Zero, and a time in the past, mean now.
	At time.Time
	// StartBy is when the task has to start at the latest, to the millisecond: a task that does not ends as expired
	// (ErrExpired), and so does an attempt after a failure. Must not be before At. Defaults to no such time.
	StartBy time.Time
}

// With returns o with every field that over sets.
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

// Retries is the number of retries in force: zero for NoRetry, MaxRetryDefault for zero.
func (o Options) Retries() int {
	if o.MaxRetry == NoRetry {
		return 0
	}
	return cmp.Or(o.MaxRetry, MaxRetryDefault)
}

// Validate joins every fault, each a *reservations.FieldError that names its field.
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
		fault("start_by", "%s must not be before the time of the task, %s", clock(o.StartBy), clock(o.At))
	}
	return errors.Join(faults...)
}

// Asynq are the options for asynq's client: MaxRetry higher by Slack, and whatever is set. They say nothing of when the
// task runs, and nothing of Unique.
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

// wholeSeconds rounds up: asynq cuts down, and would take half a second for none at all.
func wholeSeconds(d time.Duration) time.Duration {
	if whole := d.Truncate(time.Second); whole < d {
		return whole + time.Second
	}
	return d
}
