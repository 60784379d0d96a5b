package worker

import (
	"context"
	"errors"
	"time"
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
	end, ok := before(ctx, margins)
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, end)
}

// before is so many margins before asynq's deadline. It is false where there is none.
func before(ctx context.Context, margins float64) (time.Time, bool) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return time.Time{}, false
	}
	margin := min(time.Until(deadline)/20, marginMost)
	return deadline.Add(-time.Duration(margins * float64(margin))), true
}

// watch has the task abandoned when its handler goes on for too long, half a margin before asynq's deadline, until stop is called. That asynq takes the task
// back is seen by asynq's own goroutine, but for what was before the start.
func (g *gate) watch(ctx context.Context, d *delivery) (stop func() bool) {
	d.began = time.Now()
	d.runs.Store(true)
	end, ok := before(ctx, halfMargin)
	if ctx.Err() != nil {
		end, ok = d.began, true
	}
	if !ok {
		return func() bool { return false }
	}
	return time.AfterFunc(end.Sub(d.began), func() { g.answer(ctx, d, func() error { return g.abandon(ctx, d) }) }).Stop
}

// abandon concludes a delivery whose handler is left running. It is errTold where asynq was told before.
func (g *gate) abandon(ctx context.Context, d *delivery) error {
	if !d.told.CompareAndSwap(false, true) {
		return errTold
	}
	elapsed := time.Since(d.began)
	return g.conclude(ctx, d, abandoned(ctx, elapsed), elapsed)
}

// abandoned is the result of a handler that is left running.
func abandoned(ctx context.Context, after time.Duration) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	return &TimeoutError{After: after}
}
