package worker

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// How much earlier than asynq's deadline something ends, in margins.
const (
	wholeMargin = 1.0 // the handler's context
	halfMargin  = 0.5 // the answer to asynq; handlers return in between
)

// marginMost is the longest margin; short timeouts have a twentieth.
const marginMost = time.Second

// ahead returns a context that ends the given number of margins before ctx does: asynq fails a task at its deadline
// without asking us.
func ahead(ctx context.Context, margins float64) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	margin := min(time.Until(deadline)/20, marginMost)
	return context.WithDeadline(ctx, deadline.Add(-time.Duration(margins*float64(margin))))
}

// giveUp concludes a delivery whose handler still runs, unless asynq has an answer.
func (g *guard) giveUp(ctx context.Context, d *delivery) {
	g.answer(ctx, d, func() error {
		if !d.answered.CompareAndSwap(false, true) {
			return errAnswered
		}
		elapsed := time.Since(d.began)
		return g.conclude(ctx, d, overdue(ctx, elapsed), elapsed)
	})
}

// overdue is the result of a handler that still runs. It matches context.Canceled if asynq has taken the task back,
// else context.DeadlineExceeded.
func overdue(ctx context.Context, after time.Duration) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	return fmt.Errorf("handler did not return in time: left running after %v: %w", after.Round(time.Millisecond),
		context.DeadlineExceeded)
}
