package worker

import (
	"context"
	"log/slog"
	"time"

	"github.com/headway-go/headway/reservations"
)

// ErrUnknownType is why a worker returns a task without a handler.
var ErrUnknownType = errUnknownType

// neverLate is longer than any pause of a machine in a test.
const neverLate = time.Hour

// NeverLate turns off the second request of late starts, because a busy machine would charge a task twice.
func (w *Worker) NeverLate() { w.guard.lateMost = neverLate }

// NeverLate is like Worker.NeverLate.
func (l *Limits) NeverLate() { l.guard.lateMost = neverLate }

// Load returns what reads overrides once.
func Load(limiter *reservations.Limiter, read overrides, log *slog.Logger) func(context.Context) error {
	return newFollower(limiter, read, 0, log).load
}
