package worker

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/engine"
	"github.com/headway-go/headway/reservations"
)

// refusePatience is how long a task that was refused upstream waits for the answer of its bucket to that. Then the
// task goes back without it, and the bucket is asked on in the background.
const refusePatience = 2 * time.Second

// countPatience bounds how long the end of a task waits for the count of its refusals.
const countPatience = 500 * time.Millisecond

// ending is how a handler ended.
type ending struct {
	err     error
	refusal *reservations.RetryAfterError // nil unless the provider refused the call
	times   int                           // how often in a row
	alone   bool                          // no limit stops: only the task itself waits
	blocked reservations.Outcome          // the bucket's answer to the refusal; zero if there was none
	cause   error                         // why there was none
	lost    error                         // why the slots of a call that failed could not be kept; nil where they were
}

// end reads what the handler returned. If the provider refused the call, the bucket stops, as long as the task has not
// stopped it for long enough: then the task alone waits.
func (g *guard) end(ctx context.Context, d *delivery, err error) ending {
	e := ending{err: err, refusal: refusalIn(err)}
	if e.refusal == nil {
		if err == nil {
			g.answered(ctx, d)
		}
		return e
	}
	most := reservations.MaxBlockMost
	if len(d.claims) > 0 {
		most = g.longestBlock(d.charge())
	}
	named := e.refusal.After
	e.refusal.After = min(named, most)
	e.times = g.count(ctx, d, e.refusal)
	if e.alone = len(d.claims) == 0 || e.refusal.Elsewhere; !e.alone {
		e.blocked, e.cause = g.refused(ctx, d, e.refusal)
		e.alone = e.blocked.State == reservations.StateRefused
	}
	switch {
	case e.alone && named <= 0:
		e.refusal.After = min(engine.AloneAfter(e.times), most)
	case e.alone: // max_block is for the others
		longer := min(reservations.MaxBlockDefault, most<<min(e.times, 10))
		e.refusal.After = min(named, max(most, longer))
	}
	if e.alone && len(d.claims) > 0 {
		g.logCharge(ctx, d, d.charge(), slog.LevelInfo, "refused by the provider, only the task waits",
			slog.Duration("for", e.refusal.After), slog.Any("refusal", e.refusal.Err))
	}
	return e
}

// count counts a refusal. It returns how many refusals there were in a row.
func (g *guard) count(ctx context.Context, d *delivery, refusal *reservations.RetryAfterError) int {
	soon, cancel := context.WithTimeout(context.WithoutCancel(ctx), countPatience)
	defer cancel()
	times, err := g.engine.Refused(soon, d.handle(), refusal.After)
	if err != nil {
		g.logTask(ctx, d, slog.LevelWarn, "refusals of a task not counted", slog.Any("error", err))
	}
	return times
}

// longestBlock is the max_block of the charge's limit.
func (g *guard) longestBlock(c reservations.Charge) time.Duration {
	limit, err := g.limiter.Limits().For(c.Limit, c.Key)
	if err != nil {
		return reservations.MaxBlockDefault // the limit has gone meanwhile
	}
	return limit.Rules().MaxBlock
}

// refusalIn is nil where the error is anything but a refusal: what archives or drops the task goes first.
func refusalIn(err error) *reservations.RetryAfterError {
	refusal, ok := errors.AsType[*reservations.RetryAfterError](err)
	if !ok || refusal == nil || errors.Is(err, asynq.SkipRetry) || errors.Is(err, asynq.RevokeTask) {
		return nil
	}
	read := *refusal
	read.Err = err
	return &read
}

// caller names the task to its provider's bucket: by its flow, or by itself.
func (d *delivery) caller() string { return cmp.Or(reservations.FlowOf(d.claims.Charges()), d.id) }

// answered lets the bucket know that the provider gave a good answer, if it waits for one. It does not wait for the
// bucket.
func (g *guard) answered(ctx context.Context, d *delivery) {
	if len(d.claims) == 0 {
		return
	}
	o, by := d.claims[len(d.claims)-1].Outcome, d.caller()
	why, since := o.Bucket.Refusing()
	if o.Bucket.Refused == nil {
		return
	}
	done := g.pending.add(kindSettlement, d.id)
	sending, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.settleTimeout)
	go func() {
		defer done()
		defer cancel()
		now, err := g.limiter.Answered(sending, o, by)
		if g.engine.Changed(o.Charge.Bucket(), now); err != nil {
			g.logCharge(sending, d, d.charge(), slog.LevelWarn, "good answer of the provider not stored", slog.Any("error", err))
			return
		}
		if _, still := now.Bucket.Refusing(); why.Stops() && still.IsZero() {
			g.logCharge(sending, d, d.charge(), slog.LevelInfo, "the provider accepts calls again",
				slog.String("reason", string(why)), slog.Duration("after", now.At.Sub(since)))
		}
	}()
}

// refused stops the bucket of the task's provider. When the store does not answer soon, it goes on trying in the
// background.
func (g *guard) refused(
	ctx context.Context, d *delivery, refusal *reservations.RetryAfterError,
) (reservations.Outcome, error) {
	patience := refusePatience
	if deadline, ok := ctx.Deadline(); ok { // asynq must have our answer in time
		patience = max(0, min(patience, time.Until(deadline)/4))
	}
	r := reservations.Refusal{
		After: refusal.After, Reason: refusal.Reason, By: d.caller(), At: d.claims[len(d.claims)-1].Outcome.At,
	}
	ctx = context.WithoutCancel(ctx)
	came := time.Now()
	soon, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	all, err := g.limiter.Refuse(soon, d.charge(), r)
	if left := r.After - time.Since(came); err == nil || !errors.Is(err, reservations.ErrUnavailable) ||
		r.After > 0 && left <= 0 {
		return g.blocked(ctx, d, refusal, all, err), err
	}
	done := g.pending.add(kindSettlement, d.id)
	go func() {
		defer done()
		trying, cancel := context.WithTimeout(ctx, g.settleTimeout)
		defer cancel()
		if r.After > 0 {
			r.After = max(1, r.After-time.Since(came))
		}
		late, failed := g.limiter.Refuse(trying, d.charge(), r)
		g.blocked(ctx, d, refusal, late, failed)
	}()
	return reservations.Outcome{}, err
}

// blocked reports that the bucket, or all its shards, stop, so that no task is promoted before the end. It returns
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
	if own.State == reservations.StateRefused { // the task alone waits
		return own
	}
	lasts := refusal.After
	if err == nil {
		lasts = own.Wait()
	}
	attrs := []slog.Attr{slog.Duration("for", lasts), slog.Any("refusal", refusal.Err)}
	switch why := refusal.Reason; {
	case err != nil:
		const text = "refused by the provider, but the bucket could not be blocked"
		g.logCharge(ctx, d, d.charge(), slog.LevelWarn, text, append(attrs, slog.Any("error", err))...)
	case why.Stops():
		text := "the provider does not accept the key: the limit stops, and asks again"
		if why == reservations.ReasonQuota {
			text = "the account has no quota left: the limit stops, and asks again"
		}
		g.logCharge(ctx, d, d.charge(), slog.LevelError, text, append(attrs, slog.String("reason", string(why)))...)
	default:
		g.logCharge(ctx, d, d.charge(), slog.LevelInfo, "refused by the provider, the bucket is blocked", attrs...)
	}
	g.emit(Event{
		Kind: KindBlocked, Task: d.ref(), Charge: d.charge(), Blocked: lasts,
		Refusal: refusal.Err, Outcome: own, Err: err,
	})
	return own
}

// forgives says whether a refused task may go back without a retry used. What is beyond the count fails. A refusal that
// only people can end is no fault of the task, however often it comes.
func (g *guard) forgives(ctx context.Context, d *delivery, e ending) bool {
	if e.times <= g.maxRefusals || e.refusal.Reason.Stops() && len(d.claims) > 0 {
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

// untouched runs a task that nothing is known of. Only a refusal is seen to.
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
