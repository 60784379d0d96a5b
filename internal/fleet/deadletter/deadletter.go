// Package deadletter is what package worker records of tasks that fail: its contract with package deadtasks.
package deadletter

import (
	"context"
	"errors"
	"time"

	"github.com/headway-go/headway/internal/line/asynqdb"
)

// Ref names a task and its type.
type Ref struct {
	ID, Queue, Type string
}

// ErrNotKept is matched by the errors of a Store that no repetition mends: the record of that task can't be
// written.
var ErrNotKept = errors.New("the record of a dead task can't be kept")

// Source is what worker.Config.Dead takes: a deadtasks.Store.
type Source interface {
	Recorder() Store
}

// Store keeps a record of each task that asynq archives, because asynq forgets archived tasks beyond 10 000 a
// queue, and after 90 days. A deadtasks.Store has one. It must be safe for concurrent use by any number of
// processes. No method is called for a task that succeeds at its first attempt.
type Store interface {
	// Failed records a failed attempt of a task that is retried. A repeated call for an attempt changes nothing.
	Failed(ctx context.Context, task Ref, attempt Attempt) error
	// Record records tasks that are archived: without an error their records are durable. A repeated call changes
	// nothing but the attempts. One that was only found in the archive (CauseFound) does not undo a requeue that came
	// after its end. After an error, every task that can be recorded is; Record may be called again, except for tasks
	// whose error matches ErrNotKept.
	Record(ctx context.Context, dead []Task) error
	// Recovered says that a task which had failed before went well: its attempts are of no more use. A task that is
	// not known is no error.
	Recovered(ctx context.Context, task Ref) error
	// Unknown returns the archived tasks that have no record of an end, or were requeued before they were archived.
	// Beside an error it returns the ones it knows of.
	Unknown(ctx context.Context, archived []asynqdb.Archived) ([]asynqdb.Archived, error)
	// SentAgain says that failing or dead tasks of a queue were sent again under other IDs: they are no longer dead.
	SentAgain(ctx context.Context, queue string, ids []string) error
}

// Attempt is one attempt of a task that failed.
type Attempt struct {
	// Number is 1 for the first attempt since the task was enqueued. An attempt whose worker died is not reported.
	Number int
	// At is when it ended; Elapsed is how long it ran, zero where it never started.
	At      time.Time
	Elapsed time.Duration
	// Error is its text.
	Error string
	// Worker is host:pid of the process; empty where that is not known.
	Worker string
}

// Cause is why a task was archived.
type Cause string

const (
	// CauseRetries means that its retries were used up.
	CauseRetries Cause = "retries"
	// CausePermanent means that no retry would have mended it.
	CausePermanent Cause = "permanent"
	// CauseRefused means that it could never start: no worker has its type, or its charge is above its limit.
	CauseRefused Cause = "refused"
	// CauseExpired means that it did not start in time (tasks.Options.StartBy).
	CauseExpired Cause = "expired"
	// CauseFound means that it was found in asynq's archive: asynq archived it itself, because workers died with it,
	// or a person did, or the record could not be written at its end.
	CauseFound Cause = "found"
)

// Task is a task that asynq archives, with all that is needed to enqueue it again.
type Task struct {
	ID, Queue, Type string
	// Payload and Headers are the ones of asynq's task; they must not be changed. The charges are a header.
	Payload []byte
	Headers map[string]string
	// MaxRetry is asynq's count, which is higher than Headway's by 20.
	MaxRetry int
	// Timeout and Retention are zero, and Deadline is, where the task has none, or Redis could not be asked.
	Timeout, Retention time.Duration
	Deadline           time.Time
	// At is when it ended.
	At    time.Time
	Cause Cause
	// Last is the attempt that ended it. One without a number is not known: then the error is what asynq kept.
	Last Attempt
}
