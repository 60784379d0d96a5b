package worker

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/scheduler"
)

// run calls the handler, and returns what asynq has to be told; errTold where it was told before.
func (g *gate) run(ctx, early context.Context, d *delivery, handle prepared) error {
	g.announce(ctx, d)
	ended := g.pending.add(kindHandler, d.id) // before anybody can tell asynq how it went
	stop := g.watch(ctx, d)
	e := g.handled(ctx, early, d, handle, ended)
	stop()
	if !d.told.CompareAndSwap(false, true) {
		return errTold
	}
	if e.refusal != nil && ctx.Err() == nil && g.forgives(ctx, d, e.refusal) {
		return g.pushBack(ctx, d, e, time.Since(d.began))
	}
	return g.conclude(ctx, d, e.err, time.Since(d.began))
}

// handled runs the handler. What is charged is settled when that really ends, which may be after asynq was told; then ended is called.
func (g *gate) handled(ctx, early context.Context, d *delivery, handle prepared, ended func()) ending {
	defer ended()
	if len(d.claims) > 0 {
		d.expect = func(tokens reservations.Tokens) []reservations.Charge { return g.expect(ctx, d, tokens) }
	}
	e := g.end(ctx, d, g.contained(withUsage(early, &d.usage), d, handle))
	g.settle(ctx, d, d.used(e.err)) // after the block: what is given back is there when it ends
	g.observe(ctx, d, e)
	return e
}

// announce tells that the handler is about to run.
func (g *gate) announce(ctx context.Context, d *delivery) {
	s := Start{Task: d.ref(), Charges: d.claims.charges()}
	if len(d.claims) > 0 {
		s.Outcome, s.Lateness = d.claims.provider().outcome, time.Since(d.claims.ready())
		s.Waited = d.turn.Status == scheduler.StatusPromoted
	}
	g.tell(ctx, d, slog.LevelDebug, "task starts", slog.Duration("lateness", s.Lateness), slog.Bool("waited", s.Waited),
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
	return handle(ctx)
}

// used is what the handler reported. A task that nobody handled used nothing.
func (d *delivery) used(err error) reservations.Tokens {
	if !errors.Is(err, asynq.ErrHandlerNotFound) {
		return d.usage.tokens()
	}
	return reservations.Unused(d.claims.charges()...)
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
