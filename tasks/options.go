package tasks

import "time"

const (
	// QueueDefault is the default queue.
	QueueDefault = "default"
	// MaxRetryDefault is the default number of retries of a failed task.
	MaxRetryDefault = 25
	// MaxRetryLargest is the largest allowed number of retries.
	MaxRetryLargest = 1_000_000
	// NoRetry as Options.MaxRetry archives a task at its first failure.
	NoRetry = -1
)

// Options are the options of a task. The zero value of each field is its default.
type Options struct {
	// Queue is the name of the queue: at most 200 bytes of UTF-8 without control characters. Defaults to
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
	// 500 bytes. Only a scheduler.Scheduler checks it. Defaults to no key.
	Unique string
	// At is the earliest start of the task, to the millisecond. Zero, and a time in the past, mean now.
	At time.Time
	// StartBy is the latest start of the task, to the millisecond. A task that does not start by then ends as expired
	// (ErrExpired), and so does a retry. It must not be before At. Defaults to no such time.
	StartBy time.Time
}
