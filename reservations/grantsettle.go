package reservations

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Settle replaces the estimates by what the call used, in every limit that has the meter. Nil, and a meter that is not
// named, were as estimated. While the store is unavailable Settle tries again, with growing pauses, until ctx ends: its
// deadline bounds how late a settlement may arrive. A settlement that is sent twice counts once.
//
// The error names each amount that can't be, and matches ErrInvalidCharge or ErrUnknownMeter. The other meters are
// settled all the same.
func (g *Grant) Settle(ctx context.Context, used Tokens) error {
	ended := g.starts.clock.earliest(time.Now())
	charged := g.charged()
	shares := g.starts.shares(ctx, charged.charges(), used)
	if used == nil {
		charged = charged.leased()
	}
	return g.correct(ctx, charged, func(ctx context.Context, c claim) settlement {
		share := shares[c.Charge.Bucket()]
		o, err := g.starts.settle(ctx, c.Charge, share, c.settlementID(g.id), ended)
		return settlement{charge: c.Charge, used: share, outcome: o, err: err}
	})
}

// Cancel gives back all that was taken: the call was not made. Otherwise it is as Settle; of the two, the first counts.
func (g *Grant) Cancel(ctx context.Context) error {
	return g.correct(ctx, g.charged(), func(ctx context.Context, c claim) settlement {
		c.Charge.Held = "" // the caller gives up
		return g.cancel(ctx, c)
	})
}

// GiveBack is Cancel for a call that goes on to wait: it keeps its reservations.
func (g start) GiveBack(ctx context.Context) error {
	return g.correct(ctx, g.claims.started(), g.cancel)
}

func (g *Grant) cancel(ctx context.Context, c claim) settlement {
	o, err := g.starts.Cancel(ctx, c.start(), c.settlementID(g.id))
	return settlement{charge: c.Charge, used: Unused(c.Charge), outcome: o, err: err}
}

// Lower lowers the charges of a call that has started, if its use is known better than before: at once, as by a
// settlement. Settle then replaces the lowered ones. A meter's name means that meter in every limit that has it. An
// amount above a charge is ignored, and so is a meter whose limit keeps the estimate, and the calls in flight. Lower
// returns the charges from then on; nil where nothing changes. Only the first call counts, and none after Settle or
// Cancel. The error is as that of Settle.
func (g start) Lower(ctx context.Context, tokens Tokens) ([]Charge, error) {
	var changed claims
	lowered := slices.Clone(g.claims)
	shares := map[BucketName]Tokens{}
	for i, c := range g.claims {
		rest := g.starts.lowers(ctx, c.Charge, tokens)
		if len(rest) == 0 {
			continue
		}
		now := *c
		now.Charge.Tokens = maps.Clone(c.Charge.Tokens)
		maps.Copy(now.Charge.Tokens, rest)
		lowered[i], changed, shares[c.Charge.Bucket()] = &now, append(changed, c), rest
	}
	if len(changed) == 0 || !g.lower(lowered) {
		return nil, nil
	}
	return lowered.charges(), g.correct(ctx, changed, func(ctx context.Context, c claim) settlement {
		c.Charge.Lease = 0 // the call goes on
		share := shares[c.Charge.Bucket()]
		o, err := g.starts.Settle(ctx, c.Charge, share, c.settlementID(g.id)+"/expected")
		return settlement{charge: c.Charge, used: share, outcome: o, err: err}
	})
}

// lower sets what is charged from now on. It returns false if that was set before, or the call has ended.
func (g *Grant) lower(to claims) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.lowered != nil || g.settled {
		return false
	}
	g.lowered = to
	return true
}

// charged are the started claims as they are charged when the call has ended; nothing is lowered from then on.
func (g *Grant) charged() claims {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.settled = true
	if g.lowered != nil {
		return g.lowered
	}
	return g.claims.started()
}

// lowers are the meters of a charge that Lower lowers, and to what.
func (l *limits) lowers(ctx context.Context, c Charge, tokens Tokens) Tokens {
	limit, err := l.LimitFor(ctx, c)
	if err != nil {
		return nil
	}
	rest := Tokens{}
	for _, m := range limit.Meters {
		n, ok := tokens[m.Name]
		if ok && !m.keeps(limit) && m.Kind != KindInFlight && n >= 0 && n < c.Tokens[m.Name] {
			rest[m.Name] = n
		}
	}
	return rest
}

// settlement is a correction of what a start took from one bucket: see link.Settled.
type settlement struct {
	charge  Charge
	used    Tokens
	outcome Outcome
	err     error
}

// correct changes what claims charge, side by side, and reports the answers. The claims are as they are now, also where
// they are sent later.
func (g *Grant) correct(ctx context.Context, claims claims, one func(context.Context, claim) settlement) error {
	if len(claims) == 0 {
		return nil
	}
	now := make([]claim, len(claims))
	for i, c := range claims {
		now[i] = *c
	}
	send := func(ctx context.Context) error {
		return sideBySide(len(now), func(i int) error {
			s := one(ctx, now[i])
			g.link.Changed(s.outcome)
			g.link.Settled(ctx, s.charge, s.used, s.outcome, s.err)
			return s.err
		})
	}
	return g.link.Send(ctx, send)
}

// settlementID names this start of the claim for Settle and Cancel: of is the name of what starts.
func (c *claim) settlementID(of string) string { return fmt.Sprintf("%s/%d", of, c.Decided.UnixNano()) }

// shares says of each bucket of the charges what was used of its meters. What no limit of them has is left to the last,
// whose settlement names it in its error. Without charges there are no shares.
func (l *limits) shares(ctx context.Context, charges []Charge, used Tokens) map[BucketName]Tokens {
	shares, known := map[BucketName]Tokens{}, map[string]bool{}
	for _, c := range charges {
		limit, err := l.LimitFor(ctx, c)
		share := Tokens{}
		for name, n := range used {
			if _, charged := c.Tokens[name]; err == nil && limit.meter(name) >= 0 || err != nil && charged {
				share[name], known[name] = n, true
			}
		}
		shares[c.Bucket()] = share
	}
	for name, n := range used {
		if len(charges) > 0 && !known[name] {
			shares[charges[len(charges)-1].Bucket()][name] = n
		}
	}
	return shares
}
