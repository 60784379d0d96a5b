package worker

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/internal/line/dispatcher"
	"github.com/headway-go/headway/reservations"
)

// refusePatience is how long a task that was refused upstream waits for the answer of its bucket to that. Then the
// task goes back without it, and the bucket is asked on in the background.
const refusePatience = 2 * time.Second

// countPatience bounds how long the end of a task waits for the count of its refusals.
const countPatience = 500 * time.Millisecond

// refusals judges what handlers return, and stops the buckets of providers that refuse calls.
type refusals struct {
	*settler

	most int // that a task may have in a row without a retry used
}

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
func (r *refusals) end(ctx context.Context, d *delivery, err error) ending {
	e := ending{err: err, refusal: refusalIn(err)}
	if e.refusal == nil {
		if err == nil {
			r.answered(ctx, d)
		}
		return e
	}
	most := bucket.MaxBlockMost
	if len(d.charges) > 0 {
		most = r.longestBlock(d.charge())
	}
	named := e.refusal.After
	e.refusal.After = min(named, most)
	e.times = r.count(ctx, d, e.refusal)
	if e.alone = len(d.charges) == 0 || e.refusal.Elsewhere; !e.alone {
		e.blocked, e.cause = r.refused(ctx, d, e.refusal)
		e.alone = e.blocked.State == bucket.StateRefused
	}
	switch {
	case e.alone && named <= 0:
		e.refusal.After = min(dispatcher.AloneAfter(e.times), most)
	case e.alone: // max_block is for the others
		longer := min(bucket.MaxBlockDefault, most<<min(e.times, 10))
		e.refusal.After = min(named, max(most, longer))
	}
	if e.alone && len(d.charges) > 0 {
		r.logCharge(ctx, d, d.charge(), slog.LevelInfo, "refused by the provider, only the task waits",
			slog.Duration("for", e.refusal.After), slog.Any("refusal", e.refusal.Err))
	}
	return e
}

// count counts a refusal. It returns how many refusals there were in a row.
func (r *refusals) count(ctx context.Context, d *delivery, refusal *reservations.RetryAfterError) int {
	soon, cancel := context.WithTimeout(context.WithoutCancel(ctx), countPatience)
	defer cancel()
	times, err := r.dispatcher.Refused(soon, d.handle(), refusal.After)
	if err != nil {
		r.logTask(ctx, d, slog.LevelWarn, "refusals of a task not counted", slog.Any("error", err))
	}
	return times
}

// longestBlock is the max_block of the charge's limit.
func (r *refusals) longestBlock(c reservations.Charge) time.Duration {
	limit, err := inside.Of(r.limiter).Limits().For(c.Limit, c.Key)
	if err != nil {
		return bucket.MaxBlockDefault // the limit has gone meanwhile
	}
	return bucket.Rules(limit).MaxBlock
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

// answered lets the bucket know that the provider gave a good answer, if it waits for one. It does not wait for the
// bucket.
func (r *refusals) answered(ctx context.Context, d *delivery) {
	if len(d.charges) == 0 {
		return
	}
	outcomes := d.start.Outcomes()
	o := outcomes[len(outcomes)-1]
	if o.Bucket.Refused == nil {
		return
	}
	why, since := o.Bucket.Refusing()
	r.later(ctx, d, func(ctx context.Context) error {
		now, err := d.start.Answered(ctx)
		if err != nil {
			r.logCharge(ctx, d, d.charge(), slog.LevelWarn, "good answer of the provider not stored", slog.Any("error", err))
			return err
		}
		if _, still := now.Bucket.Refusing(); why.Stops() && still.IsZero() {
			r.logCharge(ctx, d, d.charge(), slog.LevelInfo, "the provider accepts calls again",
				slog.String("reason", string(why)), slog.Duration("after", now.At.Sub(since)))
		}
		return nil
	})
}

// refused stops the bucket of the task's provider. When the store does not answer soon, it goes on trying in the
// background.
func (r *refusals) refused(
	ctx context.Context, d *delivery, refusal *reservations.RetryAfterError,
) (reservations.Outcome, error) {
	patience := refusePatience
	if deadline, ok := ctx.Deadline(); ok { // asynq must have our answer in time
		patience = max(0, min(patience, time.Until(deadline)/4))
	}
	ctx = context.WithoutCancel(ctx)
	came := time.Now()
	soon, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	all, err := d.start.Refuse(soon, refusal)
	if left := refusal.After - time.Since(came); err == nil || !errors.Is(err, reservations.ErrUnavailable) ||
		refusal.After > 0 && left <= 0 {
		return r.blocked(ctx, d, refusal, all, err), err
	}
	r.later(ctx, d, func(ctx context.Context) error {
		rest := *refusal
		if rest.After > 0 {
			rest.After = max(1, rest.After-time.Since(came))
		}
		late, failed := d.start.Refuse(ctx, &rest)
		r.blocked(ctx, d, refusal, late, failed)
		return failed
	})
	return reservations.Outcome{}, err
}

// blocked reports that the bucket, or all its shards, stop. It returns the answer of the task's own bucket.
func (r *refusals) blocked(
	ctx context.Context, d *delivery, refusal *reservations.RetryAfterError, all []reservations.Outcome, err error,
) (own reservations.Outcome) {
	if len(all) > 0 {
		own = all[0]
	}
	if own.State == bucket.StateRefused { // the task alone waits
		return own
	}
	lasts := refusal.After
	if err == nil {
		lasts = own.Wait()
	}
	attrs := []slog.Attr{slog.Duration("for", lasts), slog.Any("refusal", refusal.Err)}
	row := own.Bucket.Refused
	switch why := refusal.Reason; {
	case err == nil && row != nil && row.At.Before(own.Bucket.At): // its call was under way when the row went on
		r.logCharge(ctx, d, d.charge(), slog.LevelDebug, "refused by the provider, as calls beside it", attrs...)
	case err != nil:
		const text = "refused by the provider, but the bucket could not be blocked"
		r.logCharge(ctx, d, d.charge(), slog.LevelWarn, text, append(attrs, slog.Any("error", err))...)
	case bucket.Reason(why).Stops():
		text := "the provider does not accept the key: the limit stops, and asks again"
		if why == reservations.ReasonQuota {
			text = "the account has no quota left: the limit stops, and asks again"
		}
		r.logCharge(ctx, d, d.charge(), slog.LevelError, text, append(attrs, slog.String("reason", string(why)))...)
	default:
		r.logCharge(ctx, d, d.charge(), slog.LevelInfo, "refused by the provider, the bucket is blocked", attrs...)
	}
	r.emit(Event{
		Kind: KindBlocked, Task: d.ref(), Charge: d.charge(), Blocked: lasts,
		Refusal: refusal.Err, Outcome: own, Err: err,
	})
	return own
}

// forgives says whether a refused task may go back without a retry used. What is beyond the count fails. A refusal that
// only people can end is no fault of the task, however often it comes.
func (r *refusals) forgives(ctx context.Context, d *delivery, e ending) bool {
	if e.times <= r.most || bucket.Reason(e.refusal.Reason).Stops() && len(d.charges) > 0 {
		return true
	}
	if err := r.dispatcher.ForgetRefusals(ctx, d.handle()); err != nil {
		r.logTask(ctx, d, slog.LevelWarn, "refusals of a task not forgotten", slog.Any("error", err))
	}
	return false
}
