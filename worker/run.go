package worker

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/engine"
	"github.com/headway-go/headway/internal/register"
	"github.com/headway-go/headway/internal/waitlist"
	"github.com/headway-go/headway/reservations"
)

// run calls the handler, and returns the result for asynq; errAnswered if asynq has one.
func (g *guard) run(ctx, early context.Context, d *delivery, handle prepared) error {
	g.announce(ctx, d)
	d.turn = engine.Turn{Charges: d.turn.Charges} // it has left the waitlists
	ended := g.pending.add(kindHandler, d.id)     // before the delivery can be answered
	d.began = time.Now()
	if d.runs.Store(true); d.last.Err() != nil {
		g.giveUp(ctx, d)
	}
	e := g.handled(ctx, early, d, handle, ended)
	if !d.answered.CompareAndSwap(false, true) {
		return errAnswered
	}
	elapsed := time.Since(d.began)
	elsewhere, left := errors.AsType[*engine.DeferredError](e.err)
	switch {
	case ctx.Err() != nil: // asynq has taken the task back
	case e.lost != nil:
		const text = "task lost its lease of a call in flight, will be delivered again"
		g.finish(ctx, d, KindAborted, e.lost, elapsed, slog.LevelWarn, text)
		lost := leased(d.claims)
		return g.deferTask(ctx, d, engine.Stop{Charge: lost[len(lost)-1].Charge, First: true})
	case e.refusal != nil && g.forgives(ctx, d, e):
		return g.deferRefused(ctx, d, e, elapsed)
	case left:
		g.logReturned(ctx, d, register.Need{Type: d.task.Type(), Limit: d.charge().Limit}, elsewhere)
		g.finish(ctx, d, KindAborted, e.err, elapsed, slog.LevelDebug, "task left to another worker")
		return g.deferTask(ctx, d, engine.Stop{Missing: elsewhere.Missing, After: elsewhere.Delay})
	}
	return g.conclude(ctx, d, e.err, elapsed)
}

// handled runs the handler. Charges are settled when the handler returns, which may be after asynq got an answer;
// then ended is called.
func (g *guard) handled(ctx, early context.Context, d *delivery, handle prepared, ended func()) ending {
	defer ended()
	if len(d.claims) > 0 {
		d.expect = func(tokens reservations.Tokens) []reservations.Charge { return g.expect(ctx, d, tokens) }
	}
	// The dispatcher gets the answers, so that it promotes no task for slots that are renewed.
	kept, stop := g.limiter.Keep(early, g.engine.Changed, d.claims.Charges()...)
	err := g.contained(context.WithValue(kept, usageKey{}, &d.usage), d, handle)
	lost := context.Cause(kept)
	stop()
	e := g.end(ctx, d, err)
	final := err == nil || errors.Is(err, asynq.SkipRetry) || errors.Is(err, asynq.RevokeTask)
	if errors.Is(lost, reservations.ErrLeaseLost) && !final {
		e.lost = lost
	}
	g.settle(ctx, d, e.err) // after the block: what is given back is there when it ends
	g.observe(ctx, d, e)
	return e
}

// announce reports that the handler is about to run.
func (g *guard) announce(ctx context.Context, d *delivery) {
	s := Event{Kind: KindStarted, Task: d.ref(), Charges: d.claims.Charges()}
	if len(d.claims) > 0 {
		s.Outcome, s.Lateness = d.claims[len(d.claims)-1].Outcome, time.Since(d.claims.Ready())
		s.Waited = d.turn.State == waitlist.StatePromoted
		d.hold, d.late = s.Outcome.Hold, s.Lateness
		if since := d.turn.Since(); !since.IsZero() {
			d.wait = time.Since(since)
		}
	}
	g.trace.started(d)
	g.logTask(ctx, d, slog.LevelDebug, "task starts", slog.Duration("lateness", s.Lateness), slog.Bool("waited", s.Waited),
		slog.Duration("hold", s.Outcome.Hold), slog.Time("granted_at", s.Outcome.At)) // by the bucket's clock
	g.emit(s)
}

// contained runs the handler and makes a panic an error, logged with its stack here and nowhere else.
func (g *guard) contained(ctx context.Context, d *delivery, handle prepared) (err error) {
	defer func() {
		if value := recover(); value != nil {
			p := &PanicError{Value: value, Stack: string(debug.Stack())}
			g.logTask(ctx, d, slog.LevelError, "handler panicked", slog.Any("error", p), slog.String("stack", p.Stack))
			err = p
		}
	}()
	return handle(ctx)
}

// used returns the use that the handler reported, or none if it made no call.
func (d *delivery) used(err error) reservations.Tokens {
	if notCalled(err) {
		return reservations.Unused(d.claims.Charges()...)
	}
	return d.usage.tokens()
}

// notCalled returns whether err says that a task made no call.
func notCalled(err error) bool {
	return errors.Is(err, asynq.ErrHandlerNotFound) || errors.Is(err, reservations.ErrNotCalled)
}

// finish reports the end of a task that ran: to the log, to its span, and to the hooks.
func (g *guard) finish(
	ctx context.Context, d *delivery, k Kind, err error, elapsed time.Duration, level slog.Level, message string,
) {
	e := Event{
		Task: d.ref(), Charges: d.claims.Charges(), Kind: k, Used: d.used(err), Foreign: !d.runs.Load(), Elapsed: elapsed,
		Err: err, Payload: d.task.Payload(),
	}
	if g.log.Enabled(ctx, level) {
		g.logTask(ctx, d, level, message, d.endAttrs(e)...)
	}
	d.traceEnd(k, e.Used, err)
	g.emit(e)
}

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
	g.keepRecord(ctx, d, kind, causeOf(err), err, elapsed)
	return err
}
