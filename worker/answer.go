package worker

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
)

// errTold is the result of a delivery of which asynq was told before: its handler went on for too long.
var errTold = errors.New("asynq was told before")

// errNoAnswer is what asynq is told of a delivery whose goroutine ended without a result.
var errNoAnswer = errors.New("the handler ended its goroutine")

// answer finds out what asynq has to be told of the delivery, and tells it. A panic, of ours or of a store, is an error, and so is runtime.Goexit.
func (g *gate) answer(ctx context.Context, d *delivery, result func() error) {
	err := errNoAnswer
	defer func() {
		if value := recover(); value != nil {
			err = &PanicError{Value: value, Stack: string(debug.Stack())}
			g.tell(ctx, d, slog.LevelError, "delivery panicked", slog.Any("error", err), slog.String("stack", string(debug.Stack())))
		}
		if err == errTold { //nolint:errorlint // nobody wraps it
			return
		}
		d.told.Store(true)
		select {
		case d.answers <- legible(err):
		default: // it has one
		}
	}()
	err = result()
}
