package worker

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/headway-go/headway/reservations"
)

// wakerStopTimeout bounds the end of the scheduler.
const wakerStopTimeout = 5 * time.Second

// settle corrects the charges by what was used, and ends leases. Nil keeps the estimate: the API may have been called.
// The tokens of a limit that settles by `keep` are not given back.
func (g *guard) settle(ctx context.Context, d *delivery, used reservations.Tokens) {
	charged := d.charged()
	if used == nil {
		charged = charged.leased()
	}
	if len(charged) == 0 {
		return
	}
	shares := g.shares(charged, used)
	g.correct(ctx, d, charged, shares, func(ctx context.Context, c claim) (reservations.Outcome, error) {
		return g.limiter.Settle(ctx, c.charge, shares[c.charge.Bucket()], d.startID(c))
	})
}

// shares says of each bucket what was used of its meters. What no limit of the task has is left to the last, whose
// settlement names it in its error.
func (g *guard) shares(cs claims, used reservations.Tokens) map[string]reservations.Tokens {
	shares := map[string]reservations.Tokens{}
	for _, c := range cs {
		shares[c.charge.Bucket()] = reservations.Tokens{}
	}
	for name, n := range used {
		var known bool
		for _, c := range cs {
			if g.measures(c.charge, name) {
				shares[c.charge.Bucket()][name], known = n, true
			}
		}
		if !known {
			shares[cs.provider().charge.Bucket()][name] = n
		}
	}
	return shares
}

// measures says whether the charge's limit has the meter.
func (g *guard) measures(c reservations.Charge, meter string) bool {
	limit, err := g.limiter.Limit(c.Limit)
	return err == nil && slices.ContainsFunc(limit.Meters, func(m reservations.Meter) bool { return m.Name == meter })
}

// giveBack gives back what was started, in the background: the task does not start. It keeps its reservations.
func (g *guard) giveBack(ctx context.Context, d *delivery) {
	started := d.claims.started()
	g.correct(ctx, d, started, started.nothing(), func(ctx context.Context, c claim) (reservations.Outcome, error) {
		return g.limiter.Cancel(ctx, c.charge, c.held, d.startID(c))
	})
}

// correct changes what is charged for the claims, side by side and in the background: asynq need not wait for it,
// Stop does.
func (g *guard) correct(
	ctx context.Context, d *delivery, cs claims, used map[string]reservations.Tokens,
	one func(context.Context, claim) (reservations.Outcome, error),
) {
	if len(cs) == 0 {
		return
	}
	done := g.pending.add(kindSettlement, d.id)
	correcting, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.settleTimeout)
	var group sync.WaitGroup
	d.settling.Add(1)
	for _, c := range cs {
		c := *c // as it is now: the delivery goes on
		group.Go(func() {
			o, err := one(correcting, c)
			if err != nil {
				const text = "not all could be settled, the estimate stays charged there"
				g.logCharge(correcting, d, c.charge, slog.LevelWarn, text, slog.Any("error", err))
			}
			g.sched.Changed(c.charge.Bucket(), o)
			hook(g.log, g.events.OnSettle, Settlement{
				Task: d.ref(), Charge: c.charge, Used: used[c.charge.Bucket()], Outcome: o, Err: err,
			})
		})
	}
	go func() {
		defer done()
		defer d.settling.Done()
		defer cancel()
		group.Wait()
	}()
}

// stopWaking stops the scheduler, which sends the last answers of buckets, even when the caller's time is over.
func (g *guard) stopWaking(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), wakerStopTimeout)
	defer cancel()
	if err := g.sched.Stop(ctx); err != nil {
		return fmt.Errorf("stop the scheduler: %w", err)
	}
	return nil
}
