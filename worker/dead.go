package worker

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/calls/pause"
	"github.com/headway-go/headway/internal/fleet/deadletter"
	"github.com/headway-go/headway/tasks"
)

const (
	// recordPatience bounds how long the result of a task waits for its record.
	recordPatience = 15 * time.Second
	// A record that can't be written is tried again after recordPauseMin, then after twice as long each time, at most
	// recordPauseMost.
	recordPauseMin  = 50 * time.Millisecond
	recordPauseMost = 2 * time.Second
	// notePatience bounds the note of a failed attempt, and that a task went well after all: neither is worth a wait.
	notePatience = 2 * time.Second
)

// records writes how deliveries failed to the records of dead tasks.
type records struct {
	journal

	store     deadletter.Store // nil: none are kept
	inspector *asynq.Inspector
	pending   *pending
	worker    string // its name
}

// keep writes how a delivery failed, before asynq gets the result. The record of an archived task that can't be
// written is made from the archive later. If asynq takes the task back meanwhile, its next delivery decides.
func (r *records) keep(
	ctx context.Context, d *delivery, result Kind, cause deadletter.Cause, err error, elapsed time.Duration,
) {
	if r.store == nil {
		return
	}
	defer r.pending.add(kindHandler, d.id)() // asynq's shutdown does not wait for what it has given back
	attempt := func() deadletter.Attempt {
		return deadletter.Attempt{
			Number: d.retried + 1, At: time.Now(), Elapsed: elapsed, Error: legible(err).Error(), Worker: r.worker,
		}
	}
	var failed error
	switch result { //nolint:exhaustive // the others are no failures
	case KindSucceeded:
		if d.retried > 0 { // else it has no record
			failed = r.soon(ctx, func(ctx context.Context) error { return r.store.Recovered(ctx, d.deadRef()) })
		}
	case KindFailed:
		failed = r.soon(ctx, func(ctx context.Context) error { return r.store.Failed(ctx, d.deadRef(), attempt()) })
	case KindArchived:
		r.write(ctx, d, cause, attempt())
	}
	if failed != nil {
		r.logTask(ctx, d, slog.LevelWarn, "how a task went is not noted in its record", slog.Any("error", failed))
	}
}

func (*records) soon(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), notePatience)
	defer cancel()
	return do(ctx)
}

// writeRecord writes the record of a task that is about to be archived, and retries while the store is away.
func (r *records) write(ctx context.Context, d *delivery, cause deadletter.Cause, last deadletter.Attempt) {
	if ctx.Err() != nil {
		return // the delivery has ended
	}
	task := deadletter.Task{
		ID: d.id, Queue: d.queue, Type: d.task.Type(),
		Payload: d.task.Payload(), Headers: d.task.Headers(), MaxRetry: d.allowed,
		At: last.At, Cause: cause, Last: last,
	}
	if info, err := r.inspector.GetTaskInfo(d.queue, d.id); err == nil {
		task.Timeout, task.Retention, task.Deadline = info.Timeout, info.Retention, info.Deadline
	}
	soon, cancel := ahead(ctx, wholeMargin) // asynq fails a task at its deadline without asking us, and would retry it
	defer cancel()
	trying, cancel := context.WithTimeout(soon, recordPatience)
	defer cancel()
	var refused error
	err := pause.Until(trying, recordPauseMin, recordPauseMost, func() error {
		err := r.store.Record(trying, []deadletter.Task{task})
		if errors.Is(err, deadletter.ErrNotKept) {
			refused, err = err, nil
		}
		return err
	})
	if refused != nil {
		const text = "the record of an archived task can't be kept; the task stays in asynq's archive"
		r.logTask(ctx, d, slog.LevelError, text, slog.Any("error", refused))
		return
	}
	if ctx.Err() != nil { // the next delivery decides; should asynq have archived it, it is found there
		err = r.soon(ctx, func(ctx context.Context) error { return r.store.Recovered(ctx, d.deadRef()) })
	}
	if err != nil {
		const text = "the record of an archived task can't be written; it is made from asynq's archive later"
		r.logTask(ctx, d, slog.LevelError, text, slog.Any("error", err))
	}
}

// causeOf is why a task is archived that a handler ran.
func causeOf(err error) deadletter.Cause {
	if errors.Is(err, tasks.ErrPermanent) {
		return deadletter.CausePermanent
	}
	if _, used := errors.AsType[*finalError](err); !used && errors.Is(err, asynq.SkipRetry) {
		return deadletter.CausePermanent
	}
	return deadletter.CauseRetries
}

// deadRef names the task of a delivery in its record.
func (d *delivery) deadRef() deadletter.Ref {
	return deadletter.Ref{ID: d.id, Queue: d.queue, Type: d.task.Type()}
}
