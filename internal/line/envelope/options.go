package envelope

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
)

const (
	// QueueDefault is the queue of tasks whose options name none.
	QueueDefault = "default"
	// queueLongest is the length of the longest Options.Queue, in bytes.
	queueLongest = 200
	// idLongest is the length of the longest Options.ID, in bytes.
	idLongest = 512
	// queueReserved begins the names of queues that Headway has for itself.
	queueReserved = "headway:"
	// UniqueLongest is the length of the longest Options.Unique, in bytes.
	UniqueLongest = 500
	// Slack is asynq's count of retries minus Headway's count. Deferrals use none of it. A worker that dies uses one,
	// so a task that kills every worker ends in the archive.
	Slack = 20
)

// Merge returns o, overridden by the fields that over sets.
func Merge(o, over tasks.Options) tasks.Options {
	return tasks.Options{
		Queue:     cmp.Or(over.Queue, o.Queue),
		ID:        cmp.Or(over.ID, o.ID),
		MaxRetry:  cmp.Or(over.MaxRetry, o.MaxRetry),
		Timeout:   cmp.Or(over.Timeout, o.Timeout),
		Retention: cmp.Or(over.Retention, o.Retention),
		Unique:    cmp.Or(over.Unique, o.Unique),
		At:        cmp.Or(over.At, o.At),
		StartBy:   cmp.Or(over.StartBy, o.StartBy),

		SkipExisting: over.SkipExisting || o.SkipExisting,
	}
}

// Retries returns the effective number of retries: zero for NoRetry, MaxRetryDefault for zero.
func Retries(o tasks.Options) int {
	if o.MaxRetry == tasks.NoRetry {
		return 0
	}
	return cmp.Or(o.MaxRetry, MaxRetryDefault)
}

// Validate joins all faults, each a *reservations.FieldError with its field.
func Validate(o tasks.Options) error {
	var faults []error
	fault := func(field, format string, args ...any) {
		faults = append(faults, &reservations.FieldError{Field: field, Problem: fmt.Sprintf(format, args...)})
	}
	name := func(field, value string, most int) {
		switch problem := bucket.NameProblem(field, value, most); {
		case problem != "":
			fault(field, "%s", problem)
		case value != "" && strings.TrimSpace(value) == "":
			fault(field, "%q must not be blank", value)
		}
	}
	name("queue", o.Queue, queueLongest)
	if strings.HasPrefix(o.Queue, queueReserved) || strings.ContainsAny(o.Queue, "{}") {
		fault("queue", "%q must not begin with %q, and hold no braces: they choose a node of Redis",
			o.Queue, queueReserved)
	}
	name("id", o.ID, idLongest)
	name("unique", o.Unique, UniqueLongest)
	if o.MaxRetry < tasks.NoRetry || o.MaxRetry > maxRetryLargest {
		fault("max_retry", "%d must be between 0 and %d, or NoRetry (-1) for none", o.MaxRetry, maxRetryLargest)
	}
	wait := func(field string, d time.Duration) {
		if d < 0 || d > bucket.MaxWait {
			fault(field, "%v must not be negative, and at most %v", d, bucket.MaxWait)
		}
	}
	wait("timeout", o.Timeout)
	wait("retention", o.Retention)
	moment := func(field string, t time.Time) {
		if t.After(latest()) {
			fault(field, "%s must not be after %s", ClockText(t), ClockText(latest()))
		}
	}
	moment("at", o.At)
	moment("start_by", o.StartBy)
	if !o.StartBy.IsZero() && o.StartBy.Before(o.At) {
		fault("start_by", "%s must not be before the earliest start of the task, %s", ClockText(o.StartBy), ClockText(o.At))
	}
	return errors.Join(faults...)
}

// Asynq returns the options for asynq's client: MaxRetry plus Slack, and the other fields that asynq knows.
func Asynq(o tasks.Options) []asynq.Option {
	options := []asynq.Option{asynq.MaxRetry(Retries(o) + Slack), asynq.Queue(cmp.Or(o.Queue, QueueDefault))}
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
func wholeSeconds(d time.Duration) time.Duration { return (d + time.Second - 1).Truncate(time.Second) }
