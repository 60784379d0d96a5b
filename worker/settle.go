package worker

import (
	"context"
	"log/slog"
	"slices"
	"sync"

	"github.com/headway-go/headway/reservations"
)

// settle corrects the charges by what was used, and ends leases. Nil keeps the estimate: the API may have been called.
// A limit that settles by `keep` gets its tokens back only if no call was made.
func (g *guard) settle(ctx context.Context, d *delivery, err error) {
	used, charged := d.used(err), d.charged()
	if used == nil {
		charged = leased(charged)
	}
	if len(charged) == 0 {
		return
	}
	shares := g.limiter.Shares(ctx, charged.Charges(), used)
	g.correct(ctx, d, charged, shares, func(ctx context.Context, c reservations.Claim) (reservations.Outcome, error) {
		if notCalled(err) {
			c.Charge.Held = "" // the task gives up
			return g.limiter.Cancel(ctx, c.Charge, d.startID(c))
		}
		return g.limiter.Settle(ctx, c.Charge, shares[c.Charge.Bucket()], d.startID(c))
	})
}

// leased are the claims that have slots of calls in flight.
func leased(cs reservations.Claims) reservations.Claims {
	return slices.DeleteFunc(slices.Clone(cs), func(c *reservations.Claim) bool { return c.Charge.Lease == 0 })
}

// giveBack gives back what was started, in the background: the task does not start. It keeps its reservations.
func (g *guard) giveBack(ctx context.Context, d *delivery) {
	started := d.claims.Started()
	none := map[string]reservations.Tokens{}
	for _, c := range started {
		none[c.Charge.Bucket()] = reservations.Unused(c.Charge)
	}
	g.correct(ctx, d, started, none, func(ctx context.Context, c reservations.Claim) (reservations.Outcome, error) {
		return g.limiter.Cancel(ctx, c.Charge, d.startID(c))
	})
}

// correct changes what is charged for the claims, side by side and in the background: asynq need not wait for it,
// Stop does.
func (g *guard) correct(
	ctx context.Context, d *delivery, cs reservations.Claims, used map[string]reservations.Tokens,
	one func(context.Context, reservations.Claim) (reservations.Outcome, error),
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
				g.logCharge(correcting, d, c.Charge, slog.LevelWarn, text, slog.Any("error", err))
			}
			g.engine.Changed(c.Charge.Bucket(), o)
			g.emit(Event{
				Kind: KindSettled, Task: d.ref(), Charge: c.Charge, Used: used[c.Charge.Bucket()], Outcome: o, Err: err,
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
