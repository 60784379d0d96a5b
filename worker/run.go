package worker

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/reservations"
)

// How much earlier than asynq's deadline something ends, in margins.
const (
	wholeMargin = 1.0 // the handler's context
	halfMargin  = 0.5 // our answer to asynq: what is between is for handlers to return in
)

// marginMost is the longest margin; short timeouts have a twentieth.
const marginMost = time.Second

// ahead returns a context that ends before ctx does: asynq fails a task at its deadline without asking us.
func ahead(ctx context.Context, margins float64) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	margin := min(time.Until(deadline)/20, marginMost)
	return context.WithDeadline(ctx, deadline.Add(-time.Duration(margins*float64(margin))))
}

// run calls the handler in a goroutine of its own, so that asynq gets its answer in time even from one that ignores its
// context. What is charged is settled when the handler really ends.
func (g *gate) run(ctx, early context.Context, d *delivery, handle prepared) error {
	last, cancel := ahead(ctx, halfMargin)
	defer cancel()
	started := time.Now()
	g.announce(ctx, d)
	ended := make(chan ending, 1)
	left := g.pending.add(kindHandler, d.id)
	d.expect = func(tokens reservations.Tokens) []reservations.Charge { return g.expect(ctx, d, tokens) }
	go func() {
		defer left()
		e := g.end(ctx, d, g.contained(early, d, handle))
		g.settle(ctx, d, d.used(e.err)) // after the block: what is given back is there when it ends
		g.observe(ctx, d, e)
		ended <- e
	}()
	var e ending
	select {
	case e = <-ended:
	case <-last.Done():
		select {
		case e = <-ended:
		default:
			e.err = abandoned(ctx, time.Since(started))
		}
	}
	if e.refusal != nil && ctx.Err() == nil && g.forgives(ctx, d, e.refusal) {
		return g.pushBack(ctx, d, e, time.Since(started))
	}
	return g.conclude(ctx, d, e.err, time.Since(started))
}

// announce tells that the handler is about to run.
func (g *gate) announce(ctx context.Context, d *delivery) {
	s := Start{Task: d.ref(), Charges: d.claims.charges()}
	if c := d.waited; c != nil {
		s.Place, s.Outcome = c.place, c.outcome
		s.Lateness, s.Waited = g.lateness.Of(c.charge.Bucket(), c.place, c.outcome.At.Add(time.Since(c.decided)))
	}
	g.tell(ctx, d, slog.LevelDebug, "task starts", slog.Duration("lateness", s.Lateness),
		slog.Duration("hold", s.Outcome.Hold), slog.Time("granted_at", s.Outcome.At)) // by the bucket's clock
	hook(g.log, g.events.OnStart, s)
}

// contained runs the handler and makes a panic an error, logged with its stack here and nowhere else.
func (g *gate) contained(ctx context.Context, d *delivery, handle prepared) (err error) {
	defer func() {
		if value := recover(); value != nil {
			p := &PanicError{Value: value, Stack: string(debug.Stack())}
			g.tell(ctx, d, slog.LevelError, "handler panicked", slog.Any("error", p), slog.String("stack", p.Stack))
			err = p
		}
	}()
	return handle(withUsage(ctx, &d.usage))
}

// used is what the handler reported. A task that nobody handled used nothing.
func (d *delivery) used(err error) reservations.Tokens {
	if !errors.Is(err, asynq.ErrHandlerNotFound) {
		return d.usage.tokens()
	}
	return reservations.Unused(d.claims.charges()...)
}

// abandoned is the result of a handler that is left running.
func abandoned(ctx context.Context, after time.Duration) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	return &TimeoutError{After: after}
}

// conclude tells everybody how it went, asynq last.
func (g *gate) conclude(ctx context.Context, d *delivery, err error, elapsed time.Duration) error {
	f := Finish{Task: d.ref(), Charges: d.claims.charges(), Elapsed: elapsed, Err: d.verdict(err), Payload: d.task.Payload()}
	level, message := slog.LevelWarn, "task failed, will be retried"
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		f.Result, level, message = ResultAborted, slog.LevelWarn, "task aborted, will be delivered again"
	case f.Err == nil:
		f.Result, level, message = ResultSucceeded, slog.LevelDebug, "task done"
	case errors.Is(f.Err, asynq.RevokeTask):
		f.Result, level, message = ResultDropped, slog.LevelDebug, "task dropped"
	case d.archives(f.Err), d.lastDelivery():
		f.Result, level, message = ResultArchived, slog.LevelError, "task failed and archived"
	default:
		f.Result = ResultFailed
	}
	attrs := []slog.Attr{slog.Duration("elapsed", elapsed)}
	if f.Err != nil {
		attrs = append(attrs, slog.Any("error", f.Err))
	}
	g.tell(ctx, d, level, message, attrs...)
	hook(g.log, g.events.OnFinish, f)
	g.keepRecord(ctx, d, f.Result, causeOf(f.Err), f.Err, elapsed)
	return f.Err
}
