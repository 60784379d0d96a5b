package worker

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"time"
)

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
		if err == errNoAnswer { //nolint:errorlint // never wrapped
			err = g.unanswered(ctx, d)
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

// unanswered concludes a delivery whose handler has ended its goroutine.
func (g *guard) unanswered(ctx context.Context, d *delivery) error {
	if !d.runs.Load() {
		return errNoAnswer
	}
	if !d.answered.CompareAndSwap(false, true) {
		return errAnswered
	}
	return g.conclude(ctx, d, errNoAnswer, time.Since(d.began))
}
