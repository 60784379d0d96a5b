package worker

import (
	"context"
	"maps"
	"slices"

	"github.com/headway-go/headway/reservations"
)

// Expect lowers the charges before the work, if their use is known better than at enqueue. The charges are lowered at
// once, as by a settlement, and Use is settled against the lowered ones. A meter's name means that meter in every
// limit of the task that has it. An amount above a charge is ignored, and so is a meter whose limit keeps the
// estimate. Charges has the lowered charges then. Only the first call counts; nothing happens for an unlimited task,
// and after the handler has ended. Not safe for concurrent use.
func (j *Job[T]) Expect(tokens reservations.Tokens) {
	if j.expect == nil {
		return
	}
	if charges := j.expect(tokens); charges != nil {
		j.Charges = charges
	}
	j.expect = nil
}

// expect lowers the charges of a task that runs, and returns what they are then; nil where nothing changes.
func (g *guard) expect(ctx context.Context, d *delivery, tokens reservations.Tokens) []reservations.Charge {
	var changed reservations.Claims
	lowered := slices.Clone(d.claims)
	shares := map[string]reservations.Tokens{}
	for i, c := range d.claims {
		rest := g.lowered(ctx, c.Charge, tokens)
		if len(rest) == 0 {
			continue
		}
		now := *c
		now.Charge.Tokens = maps.Clone(c.Charge.Tokens)
		maps.Copy(now.Charge.Tokens, rest)
		lowered[i], changed, shares[c.Charge.Bucket()] = &now, append(changed, c), rest
	}
	if len(changed) == 0 || !d.usage.expect(lowered) {
		return nil
	}
	g.correct(ctx, d, changed, shares, func(ctx context.Context, c reservations.Claim) (reservations.Outcome, error) {
		c.Charge.Lease = 0 // goes on
		return g.limiter.Settle(ctx, c.Charge, shares[c.Charge.Bucket()], d.startID(c)+"/expected")
	})
	return lowered.Charges()
}

// lowered are the meters of a charge that are to be lowered, and to what.
func (g *guard) lowered(
	ctx context.Context, c reservations.Charge, tokens reservations.Tokens,
) reservations.Tokens {
	limit, err := g.limiter.LimitFor(ctx, c)
	if err != nil {
		return nil
	}
	rest := reservations.Tokens{}
	for _, m := range limit.Meters {
		keeps := m.Settle == reservations.SettleKeep || m.Settle == "" && limit.Settle == reservations.SettleKeep
		if n, ok := tokens[m.Name]; ok && !keeps && m.Kind != reservations.KindInFlight && n >= 0 && n < c.Tokens[m.Name] {
			rest[m.Name] = n
		}
	}
	return rest
}

// expect sets the charges from now on. It returns false if they were set before, or the handler has ended.
func (u *usage) expect(lowered reservations.Claims) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.lowered != nil || u.settled {
		return false
	}
	u.lowered = lowered
	return true
}

// charged are the claims as they are charged when the handler has ended; nothing is lowered from then on.
func (d *delivery) charged() reservations.Claims {
	d.usage.mu.Lock()
	defer d.usage.mu.Unlock()
	d.usage.settled = true
	if d.usage.lowered != nil {
		return d.usage.lowered
	}
	return d.claims
}
