package worker

import (
	"context"
	"log/slog"

	"github.com/headway-go/headway/reservations"
)

// ErrUnknownType is why a worker returns a task without a handler.
var ErrUnknownType = errUnknownType

// Load returns what reads overrides once.
func Load(limiter *reservations.Limiter, read overrides, log *slog.Logger) func(context.Context) error {
	return newFollower(limiter, read, 0, log).load
}
