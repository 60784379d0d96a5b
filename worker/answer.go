package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
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

// errAnswered is the result of a delivery that has its answer: its handler ran for too long.
var errAnswered = errors.New("asynq has the answer of this delivery")

// errNoAnswer is the answer to a delivery whose goroutine ended without a result.
var errNoAnswer = errors.New("the handler ended its goroutine")

// answer passes the result of the delivery to asynq. A panic, of Headway or of a store, is an error, and so is
// runtime.Goexit.
func (g *guard) answer(ctx context.Context, d *delivery, result func() error) {
	err := errNoAnswer
	defer func() {
		value := recover()
		if value != nil {
			err = legible(&PanicError{Value: value, Stack: string(debug.Stack())})
		}
		if err == errNoAnswer && d.runs.Load() { //nolint:errorlint // never wrapped
			err = g.concludeOnce(ctx, d, err)
		}
		if err == errAnswered { //nolint:errorlint // never wrapped
			return
		}
		d.answered.Store(true)
		select {
		case d.answers <- err:
		default: // it has one
		}
		if value != nil {
			g.logTask(ctx, d, slog.LevelError, "delivery panicked", slog.Any("error", err))
		}
	}()
	err = legible(result()) // a text that panics is a panic
}

// concludeOnce concludes a delivery whose handler has not returned. It returns errAnswered if asynq has an answer.
func (g *guard) concludeOnce(ctx context.Context, d *delivery, err error) error {
	if !d.answered.CompareAndSwap(false, true) {
		return errAnswered
	}
	return g.conclude(ctx, d, err, time.Since(d.began))
}

// giveUp concludes a delivery whose handler still runs, unless asynq has an answer.
func (g *guard) giveUp(ctx context.Context, d *delivery) {
	g.answer(ctx, d, func() error { return g.concludeOnce(ctx, d, overdue(ctx, time.Since(d.began))) })
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
