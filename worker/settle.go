package worker

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/headway-go/headway/reservations"
)

// wakerStopTimeout bounds the end of the scheduler.
const wakerStopTimeout = 5 * time.Second

// settle corrects the charge by what was used, in the background: asynq need not wait for it, Stop does. Nil keeps the
// estimate: the API may have been called. The tokens of a limit that settles by `keep` are not given back.
func (g *gate) settle(ctx context.Context, d *delivery, used reservations.Tokens) {
	if !d.limited || used == nil {
		return
	}
	done := g.pending.add(kindSettlement, d.id)
	d.settling.Add(1)
	go func() {
		defer done()
		defer d.settling.Done()
		settling, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.settleTimeout)
		defer cancel()
		o, err := g.limiter.Settle(settling, d.charge, used, "")
		if err != nil {
			g.tell(ctx, d, slog.LevelWarn, "not all could be settled, the estimate stays charged there", slog.Any("error", err))
		}
		if !o.At.IsZero() {
			g.lateness.Observe(d.charge.Bucket(), o)
			g.way.Moved(d.charge.Bucket(), o)
		}
		hook(g.log, g.events.OnSettle, Settlement{Task: d.ref(), Charge: d.charge, Used: used, Outcome: o, Err: err})
	}()
}

// stopWaking stops the scheduler, which publishes what settlements moved, even when the caller's time is over.
func (g *gate) stopWaking(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), wakerStopTimeout)
	defer cancel()
	if err := g.way.Stop(ctx); err != nil {
		return fmt.Errorf("stop waking tasks: %w", err)
	}
	return nil
}
