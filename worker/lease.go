package worker

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/engine"
	"github.com/headway-go/headway/reservations"
)

// leased are the claims that have slots of calls in flight.
func leased(cs reservations.Claims) reservations.Claims {
	return slices.DeleteFunc(slices.Clone(cs), func(c *reservations.Claim) bool { return c.Charge.Lease == 0 })
}

// canAgain says whether a task whose handler returned err may run again.
func canAgain(err error) bool {
	return err != nil && !errors.Is(err, asynq.SkipRetry) && !errors.Is(err, asynq.RevokeTask)
}

// deferLost sends a task back whose call ended because its slots could not be kept. No retry is used, and the task
// starts before the waiting tasks.
func (g *guard) deferLost(ctx context.Context, d *delivery, e ending, elapsed time.Duration) error {
	g.logTask(ctx, d, slog.LevelWarn, "task lost its lease of a call in flight, will be delivered again",
		slog.Duration("elapsed", elapsed), slog.Any("error", e.lost))
	g.finish(d, d.finish(KindAborted, d.used(e.err), e.lost, elapsed))
	lost := leased(d.claims)
	return g.deferTask(ctx, d, engine.Stop{Charge: lost[len(lost)-1].Charge, First: true})
}
