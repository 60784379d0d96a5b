package worker

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"time"
)

// errTold is the result of a delivery of which asynq was told before: its handler went on for too long.
var errTold = errors.New("asynq was told before")

// errNoAnswer is what asynq is told of a delivery whose goroutine ended without a result.
var errNoAnswer = errors.New("the handler ended its goroutine")

// answer finds out what asynq has to be told of the delivery, and tells it. A panic, of ours or of a store, is an error, and so is runtime.Goexit.
func (g *gate) answer(ctx context.Context, d *delivery, result func() error) {
	err := errNoAnswer
	defer func() {
		value := recover()
		if value != nil {
			err = legible(&PanicError{Value: value, Stack: string(debug.Stack())})
		}
		if err == errNoAnswer { //nolint:errorlint // nobody wraps it
			err = g.unanswered(ctx, d)
		}
		if err == errTold { //nolint:errorlint // nobody wraps it
			return
		}
		d.told.Store(true)
		select {
		case d.answers <- err:
		default: // it has one
		}
		if value != nil {
			g.tell(ctx, d, slog.LevelError, "delivery panicked", slog.Any("error", err))
		}
	}()
	err = legible(result()) // a text that panics is a panic
}

// unanswered concludes a delivery whose handler has ended its goroutine.
func (g *gate) unanswered(ctx context.Context, d *delivery) error {
	if !d.runs.Load() {
		return errNoAnswer
	}
	if !d.told.CompareAndSwap(false, true) {
		return errTold
	}
	return g.conclude(ctx, d, errNoAnswer, time.Since(d.began))
}
