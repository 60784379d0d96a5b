package worker

import (
	"context"
	"log/slog"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/envelope"
	"github.com/headway-go/headway/internal/pause"
)

// onTime reports whether the task may start now. If the task was woken a little before its time (envelope.At), as
// promoted tasks are, it returns no earlier. A task that had to start before now ends as expired: err is the answer for
// asynq.
func (g *guard) onTime(ctx, early context.Context, d *delivery) (starts bool, err error) {
	if wait := time.Until(envelope.At(d.task)); wait > 0 {
		_ = pause.For(early, min(wait, bucket.Hold)) // longer only if the clocks differ, or a person ran the task
	}
	expired := envelope.CheckStart(d.task, time.Now())
	if expired == nil {
		return true, nil
	}
	return false, g.expire(ctx, d, expired)
}

// expire ends a task that had to start before now. What is reserved for it is released.
func (g *guard) expire(ctx context.Context, d *delivery, expired error) error {
	if len(d.claims) > 0 {
		turn, err := g.engine.Arrive(ctx, d.handle(), d.claims.Charges())
		if err != nil {
			g.logTask(ctx, d, slog.LevelDebug, "expired task may hold reservations", slog.Any("error", err))
		}
		d.turn = turn
	}
	return g.refuse(ctx, d, expired)
}
