package worker

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/asynqdb"
	"github.com/headway-go/headway/internal/pause"
	"github.com/headway-go/headway/internal/register"
	"github.com/headway-go/headway/tasks"
)

const (
	// recordPatience bounds how long the result of a task waits for its record.
	recordPatience = 15 * time.Second
	// notePatience bounds the note of a failed attempt, and that a task went well after all: neither is worth a wait.
	notePatience = 2 * time.Second
)

// ErrNotKept is matched by the errors of a Graveyard that no repetition mends: the record of that task can't be
// written.
var ErrNotKept = errors.New("worker: the record of a dead task can't be kept")

// Graveyard keeps a record of each task that asynq archives, because asynq forgets archived tasks beyond 10 000 a
// queue, and after 90 days. A deadtasks.Store is one, in MongoDB. It must be safe for concurrent use by any number of
// processes. No method is called for a task that succeeds at its first attempt.
type Graveyard interface {
	// Failed records a failed attempt of a task that is retried. A repeated call for an attempt changes nothing.
	Failed(ctx context.Context, task TaskRef, attempt FailedAttempt) error
	// Bury records tasks that are archived: without an error their records are durable. A repeated call changes
	// nothing but the attempts. One that was only found in the archive (CauseFound) does not undo a requeue that came
	// after its end. After an error, every task that can be recorded is; Bury may be called again, except for tasks
	// whose error matches ErrNotKept.
	Bury(ctx context.Context, dead []DeadTask) error
	// Recovered says that a task which had failed before went well: its attempts are of no more use. A task that is
	// not known is no error.
	Recovered(ctx context.Context, task TaskRef) error
	// Unknown returns the archived tasks that have no record of an end, or were requeued before they were archived.
	// Beside an error it returns the ones it knows of.
	Unknown(ctx context.Context, archived []Archived) ([]Archived, error)
}

// FailedAttempt is one attempt of a task that failed.
type FailedAttempt struct {
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

// DeadTask is a task that asynq archives, with all that is needed to enqueue it again.
type DeadTask struct {
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
	Last FailedAttempt
}

// Archived is a task in asynq's archive.
type Archived struct {
	ID, Queue string
	// At is when it was archived, in whole seconds.
	At time.Time
}

// dead keeps the records of a guard.
type dead struct {
	graves    Graveyard // nil: none are kept
	inspector *asynq.Inspector
	worker    string // host:pid
}

func newDead(graves Graveyard, inspector *asynq.Inspector) dead {
	return dead{graves: graves, inspector: inspector, worker: register.ProcessName()}
}

// keep has the guard keep records in graves, and search the archives of the queues. Nil graves keep none.
func (g *guard) keep(graves Graveyard, every time.Duration, client redis.UniversalClient, queues func() []string) {
	if graves == nil {
		return
	}
	inspector := asynq.NewInspectorFromRedisClient(client)
	g.dead = newDead(graves, inspector)
	g.sweeper = &sweeper{
		client: client, db: asynqdb.New(client), inspector: inspector,
		graves: graves, queues: queues, every: every, log: g.log,
	}
}

// keepRecord writes how a delivery failed, before asynq gets the result. The record of an archived task that can't be
// written is made from the archive later. If asynq takes the task back meanwhile, its next delivery decides.
func (g *guard) keepRecord(ctx context.Context, d *delivery, r Kind, cause Cause, err error, elapsed time.Duration) {
	if g.dead.graves == nil {
		return
	}
	defer g.pending.add(kindHandler, d.id)() // asynq's shutdown does not wait for what it has given back
	attempt := func() FailedAttempt {
		return FailedAttempt{
			Number: d.retried + 1, At: time.Now(), Elapsed: elapsed, Error: legible(err).Error(), Worker: g.dead.worker,
		}
	}
	var failed error
	switch r { //nolint:exhaustive // the others are no failures
	case KindSucceeded:
		if d.retried > 0 { // else it has no record
			failed = g.soon(ctx, func(ctx context.Context) error { return g.dead.graves.Recovered(ctx, d.ref()) })
		}
	case KindFailed:
		failed = g.soon(ctx, func(ctx context.Context) error { return g.dead.graves.Failed(ctx, d.ref(), attempt()) })
	case KindArchived:
		g.writeRecord(ctx, d, cause, attempt())
	}
	if failed != nil {
		g.logTask(ctx, d, slog.LevelWarn, "how a task went is not noted in its record", slog.Any("error", failed))
	}
}

func (g *guard) soon(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), notePatience)
	defer cancel()
	return do(ctx)
}

// writeRecord writes the record of a task that is about to be archived, and retries while the store is away.
func (g *guard) writeRecord(ctx context.Context, d *delivery, cause Cause, last FailedAttempt) {
	if ctx.Err() != nil {
		return // the delivery has ended
	}
	task := DeadTask{
		ID: d.id, Queue: d.queue, Type: d.task.Type(),
		Payload: d.task.Payload(), Headers: d.task.Headers(), MaxRetry: d.allowed,
		At: last.At, Cause: cause, Last: last,
	}
	if info, err := g.dead.inspector.GetTaskInfo(d.queue, d.id); err == nil {
		task.Timeout, task.Retention, task.Deadline = info.Timeout, info.Retention, info.Deadline
	}
	soon, cancel := ahead(ctx, wholeMargin) // asynq fails a task at its deadline without asking us, and would retry it
	defer cancel()
	trying, cancel := context.WithTimeout(soon, recordPatience)
	defer cancel()
	var refused error
	err := pause.Until(trying, retryPauseMin, retryPauseMost, func() error {
		err := g.dead.graves.Bury(trying, []DeadTask{task})
		if errors.Is(err, ErrNotKept) {
			refused, err = err, nil
		}
		return err
	})
	if refused != nil {
		const text = "the record of an archived task can't be kept; the task stays in asynq's archive"
		g.logTask(ctx, d, slog.LevelError, text, slog.Any("error", refused))
		return
	}
	if ctx.Err() != nil { // the next delivery decides; should asynq have archived it, it is found there
		err = g.soon(ctx, func(ctx context.Context) error { return g.dead.graves.Recovered(ctx, d.ref()) })
	}
	if err != nil {
		const text = "the record of an archived task can't be written; it is made from asynq's archive later"
		g.logTask(ctx, d, slog.LevelError, text, slog.Any("error", err))
	}
}

// causeOf is why a task is archived that a handler ran.
func causeOf(err error) Cause {
	if errors.Is(err, tasks.ErrPermanent) {
		return CausePermanent
	}
	if _, used := errors.AsType[*finalError](err); !used && errors.Is(err, asynq.SkipRetry) {
		return CausePermanent
	}
	return CauseRetries
}
