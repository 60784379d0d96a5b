package worker

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/engine"
	"github.com/headway-go/headway/reservations"
)

// blockPatience is how long a task that was refused upstream waits for the answer of its bucket to the block. Then
// the task goes back without it, and the block is tried on in the background.
const blockPatience = 2 * time.Second

// countPatience bounds how long a block waits for the count of the task's refusals.
const countPatience = 500 * time.Millisecond

// ending is how a handler ended.
type ending struct {
	err     error
	refusal *reservations.RetryAfterError // nil unless the provider refused the call and named a time
	times   int                           // how often in a row
	alone   bool                          // the task has blocked its limit for long enough: only the task itself waits
	blocked reservations.Outcome          // the bucket's answer to the block; zero if there was none
	cause   error                         // why there was none
	lost    error                         // why the slots of a call that failed could not be kept; nil where they were
}

// end reads what the handler returned, and blocks the bucket where the provider asked for it. The blocks of one task
// add up to at most its limit's max_block: after that its refusals delay the task alone.
func (g *guard) end(ctx context.Context, d *delivery, err error) ending {
	e := ending{err: err, refusal: refusalIn(err)}
	if e.refusal == nil {
		return e
	}
	most := reservations.MaxBlockMost
	if len(d.claims) > 0 {
		most = g.longestBlock(d.charge())
	}
	e.refusal.After = min(e.refusal.After, most)
	var before time.Duration
	if e.times, before = g.count(ctx, d, e.refusal); len(d.claims) == 0 {
		return e
	}
	if e.alone = before >= most; e.alone {
		g.logCharge(ctx, d, d.charge(), slog.LevelInfo, "refused by the provider once more, only the task waits",
			slog.Duration("for", e.refusal.After), slog.Any("refusal", e.refusal.Err))
		return e
	}
	e.refusal.After = min(e.refusal.After, most-before)
	e.blocked, e.cause = g.block(ctx, d, e.refusal)
	return e
}

// count counts a refusal. It returns how many refusals there were in a row and for how long the earlier ones asked.
func (g *guard) count(
	ctx context.Context, d *delivery, refusal *reservations.RetryAfterError,
) (times int, before time.Duration) {
	soon, cancel := context.WithTimeout(context.WithoutCancel(ctx), countPatience)
	defer cancel()
	times, before, err := g.engine.Refused(soon, d.handle(), refusal.After)
	if err != nil {
		g.logTask(ctx, d, slog.LevelWarn, "refusals of a task not counted", slog.Any("error", err))
	}
	return times, before
}

// longestBlock is the max_block of the charge's limit.
func (g *guard) longestBlock(c reservations.Charge) time.Duration {
	limit, err := g.limiter.Limits().For(c.Limit, c.Key)
	if err != nil {
		return reservations.MaxBlockDefault // the limit has gone meanwhile
	}
	return limit.Rules().MaxBlock
}

// refusalIn is nil where the error is anything but a refusal that named a time: what archives or drops the task goes
// first.
func refusalIn(err error) *reservations.RetryAfterError {
	refusal, ok := errors.AsType[*reservations.RetryAfterError](err)
	if !ok || refusal == nil || refusal.After <= 0 || errors.Is(err, asynq.SkipRetry) || errors.Is(err, asynq.RevokeTask) {
		return nil
	}
	return &reservations.RetryAfterError{After: refusal.After, Err: err}
}

// block lets nothing start in the bucket of the task's provider. When the store does not answer soon, it goes on
// trying in the background.
func (g *guard) block(
	ctx context.Context, d *delivery, refusal *reservations.RetryAfterError,
) (reservations.Outcome, error) {
	patience := blockPatience
	if deadline, ok := ctx.Deadline(); ok { // asynq must have our answer in time
		patience = max(0, min(patience, time.Until(deadline)/4))
	}
	ctx = context.WithoutCancel(ctx)
	end := time.Now().Add(refusal.After)
	soon, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	all, err := g.limiter.Block(soon, d.charge(), refusal.After)
	if err == nil || !errors.Is(err, reservations.ErrUnavailable) || time.Until(end) <= 0 {
		return g.blocked(ctx, d, refusal, all, err), err
	}
	done := g.pending.add(kindSettlement, d.id)
	go func() {
		defer done()
		trying, cancel := context.WithTimeout(ctx, g.settleTimeout)
		defer cancel()
		late, failed := g.limiter.Block(trying, d.charge(), time.Until(end))
		g.blocked(ctx, d, refusal, late, failed)
	}()
	return reservations.Outcome{}, err
}

// blocked reports a block of the bucket, or of all its shards, so that no task is promoted before it ends. It returns
// the answer of the task's own bucket.
func (g *guard) blocked(
	ctx context.Context, d *delivery, refusal *reservations.RetryAfterError, all []reservations.Outcome, err error,
) (own reservations.Outcome) {
	for i, o := range all {
		if !o.At.IsZero() {
			g.engine.Changed(o.Charge.Bucket(), o)
		}
		if i == 0 {
			own = o
		}
	}
	attrs := []slog.Attr{slog.Duration("for", refusal.After), slog.Any("refusal", refusal.Err)}
	if err != nil {
		const text = "refused by the provider, but the bucket could not be blocked"
		g.logCharge(ctx, d, d.charge(), slog.LevelWarn, text, append(attrs, slog.Any("error", err))...)
	} else {
		g.logCharge(ctx, d, d.charge(), slog.LevelInfo, "refused by the provider, the bucket is blocked", attrs...)
	}
	g.emit(Event{
		Kind: KindBlocked, Task: d.ref(), Charge: d.charge(), Blocked: refusal.After,
		Refusal: refusal.Err, Outcome: own, Err: err,
	})
	return own
}

// forgives says whether a refused task may go back without a retry used. What is beyond the count fails.
func (g *guard) forgives(ctx context.Context, d *delivery, e ending) bool {
	if e.times <= g.maxRefusals {
		return true
	}
	if err := g.engine.ForgetRefusals(ctx, d.handle()); err != nil {
		g.logTask(ctx, d, slog.LevelWarn, "refusals of a task not forgotten", slog.Any("error", err))
	}
	return false
}

// deferRefused sends a task back whose call the provider refused. No retry is used, and the task starts first after
// the block.
func (g *guard) deferRefused(ctx context.Context, d *delivery, e ending, elapsed time.Duration) error {
	g.finish(ctx, d, KindRefused, e.err, elapsed, slog.LevelDebug, "task refused by the provider")
	return g.deferTask(ctx, d, engine.Stop{
		Charge: d.charge(), Alone: e.alone, Outcome: e.blocked, Cause: e.cause, Refusal: e.err, First: true,
		After: e.refusal.After,
	})
}

// untouched runs a task that nothing is known of. Only a refusal that named a time is seen to.
func (g *guard) untouched(ctx context.Context, t *asynq.Task, next asynq.Handler) error {
	started := time.Now()
	err := next.ProcessTask(ctx, t)
	if refusalIn(err) == nil || ctx.Err() != nil {
		return err
	}
	d := g.known(ctx, &delivery{task: t})
	e := g.end(ctx, d, err)
	if !g.forgives(ctx, d, e) {
		return err
	}
	return legible(g.deferRefused(ctx, d, e, time.Since(started)))
}
