package deadtasks

import (
	"time"

	"github.com/headway-go/headway/worker"
)

// Task is the record of one task.
type Task struct {
	key   string // _id of the document
	token string // of the requeue that has it

	// ID, Queue and Type are those of asynq's task.
	ID, Queue, Type string
	State           State
	// At is when it ended; of a task that is failing, when it last failed.
	At time.Time
	// Cause and Error are why it ended. Error has at most 1000 bytes.
	Cause worker.Cause
	Error string
	// Attempts are those that failed, in the order in which they were told: of one that is retried at most the last 100. Those of which nobody told, because the worker died, are missing.
	Attempts []worker.FailedAttempt
	// Payload and Headers are what it is enqueued with again; the charges are a header. Missing is the size of a payload that is too large for a record: then it is in asynq's archive alone.
	Payload []byte
	Headers map[string]string
	Missing int
	// MaxRetry is asynq's count, which is higher than Headway's by tasks.Slack.
	MaxRetry int
	// Timeout, Retention and Deadline are zero where the task has none.
	Timeout, Retention time.Duration
	Deadline           time.Time
	// Batch is the ID of the batch whose request the task is, empty for others.
	Batch string
	// Requeues are when it was enqueued again.
	Requeues []time.Time
}
