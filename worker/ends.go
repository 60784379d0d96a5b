package worker

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/fleet/deadletter"
	"github.com/headway-go/headway/internal/line/dispatcher"
	"github.com/headway-go/headway/internal/line/envelope"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
)

// conclude reports the result of a task, also to its record, and returns it for asynq.
func (g *guard) conclude(ctx context.Context, d *delivery, err error, elapsed time.Duration) error {
	err = d.verdict(err)
	kind, level, message := KindFailed, slog.LevelWarn, "task failed, will be retried"
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		kind, level, message = KindAborted, slog.LevelWarn, "task aborted, will be delivered again"
	case err == nil:
		kind, level, message = KindSucceeded, slog.LevelInfo, "task done"
	case errors.Is(err, asynq.RevokeTask):
		kind, level, message = KindDropped, slog.LevelInfo, "task dropped"
	case d.archives(err):
		kind, level, message = KindArchived, slog.LevelError, "task failed and archived"
	}
	g.finish(ctx, d, kind, err, elapsed, level, message)
	g.records.keep(ctx, d, kind, causeOf(err), err, elapsed)
	return err
}

// refuse ends a delivery whose task can't run. What is permanent is archived, anything else is a failure like any
// other.
func (g *guard) refuse(ctx context.Context, d *delivery, err error) error {
	err = d.verdict(err)
	kind, level, message := KindFailed, slog.LevelWarn, "task can't be priced, will be retried"
	var cause deadletter.Cause
	if d.archives(err) {
		if dropped := g.dispatcher.Leave(ctx, d.handle(), d.taken()); dropped != nil {
			g.logTask(ctx, d, slog.LevelDebug, "refused task still in a waitlist", slog.Any("error", dropped))
		}
		if cause = deadletter.CauseRefused; errors.Is(err, tasks.ErrExpired) {
			cause = deadletter.CauseExpired
		}
		kind, level, message = KindArchived, slog.LevelError, "task "+string(cause)+" and archived"
		g.emit(Event{Kind: KindRejected, Task: d.ref(), Err: err, Payload: d.task.Payload()})
	}
	g.logTask(ctx, d, level, message, slog.Any("error", err))
	d.traceEnd(kind, nil, err)
	g.records.keep(ctx, d, kind, cause, err, 0)
	return err
}

// deferTask sends a task back that does not run now, and returns the answer for asynq. It uses no retry, also on the
// last attempt.
func (g *guard) deferTask(ctx context.Context, d *delivery, stop dispatcher.Stop) error {
	last, cancel := ahead(ctx, halfMargin)
	defer cancel()
	if expired := envelope.CheckStart(d.task, time.Now()); expired != nil {
		return g.refuse(ctx, d, expired)
	}
	deferred := g.dispatcher.Wait(last, d.handle(), d.turn, stop)
	g.snoozes.Add(d.queue, d.id, deferred.Snooze(d.task))
	event := Event{
		Kind: KindDeferred, Task: d.ref(), Charge: stop.Charge, Outcome: stop.Outcome, Err: deferred, Until: deferred.Until,
	}
	g.logCharge(ctx, d, stop.Charge, slog.LevelDebug, "task waits",
		slog.String("state", deferred.State), slog.Time("until", deferred.Until), slog.Any("reason", deferred))
	forgotten := "forgotten " + stop.Charge.Bucket().String()
	if left := stop.Outcome.Bucket.Forgotten(); left > 0 && g.fleet.first(forgotten, warnEvery) {
		g.logCharge(ctx, d, stop.Charge, slog.LevelWarn, "redis is new or lost its data: calls in flight of before may "+
			"still run, so that nothing of the limit starts until they have ended", slog.Duration("left", left))
	}
	d.traceDeferral(event)
	g.emit(event)
	return deferred
}

// deferRefused sends a task back whose call the provider refused. No retry is used, and the task starts first after
// the block.
func (g *guard) deferRefused(ctx context.Context, d *delivery, e ending, elapsed time.Duration) error {
	g.finish(ctx, d, KindRefused, e.err, elapsed, slog.LevelDebug, "task refused by the provider")
	return g.deferTask(ctx, d, dispatcher.Stop{
		Charge: d.charge(), Alone: e.alone, Outcome: e.blocked, Cause: e.cause, Refusal: e.err, After: e.refusal.After,
		// What only people can end may be the task's own fault: the next call that asks is one of another task. So it is
		// where everything seems to be refused.
		First: !bucket.Reason(e.refusal.Reason).Stops() && e.blocked.State != bucket.StateWaiting,
	})
}

// finish reports the end of a task that ran: to the log, to its span, and to the hooks.
func (g *guard) finish(
	ctx context.Context, d *delivery, k Kind, err error, elapsed time.Duration, level slog.Level, message string,
) {
	e := Event{
		Task: d.ref(), Charges: d.taken(), Kind: k, Used: d.used(err), NotStarted: !d.runs.Load(), Elapsed: elapsed,
		Err: err, Payload: d.task.Payload(),
	}
	if g.log.Enabled(ctx, level) {
		g.logTask(ctx, d, level, message, d.endAttrs(e)...)
	}
	d.traceEnd(k, e.Used, err)
	g.emit(e)
}

// used returns the use that the handler reported, or none if it made no call.
func (d *delivery) used(err error) reservations.Tokens {
	if notCalled(err) {
		return reservations.Unused(d.taken()...)
	}
	return d.usage.tokens()
}

// notCalled returns whether err says that a task made no call.
func notCalled(err error) bool {
	return errors.Is(err, asynq.ErrHandlerNotFound) || errors.Is(err, reservations.ErrNotCalled)
}

// untouched runs a task that nothing is known of. Only a refusal is seen to.
func (g *guard) untouched(ctx context.Context, t *asynq.Task, next asynq.Handler) error {
	started := time.Now()
	err := next.ProcessTask(ctx, t)
	if refusalIn(err) == nil || ctx.Err() != nil {
		return err
	}
	d := g.known(ctx, &delivery{task: t})
	e := g.refusals.end(ctx, d, err)
	if !g.refusals.forgives(ctx, d, e) {
		return err
	}
	return legible(g.deferRefused(ctx, d, e, time.Since(started)))
}
