package reservations

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/headway-go/headway/internal/bucket"
)

// Wait waits until all charges have started, all or nothing, and returns when the call may be made. Name the narrowest
// limit first and the provider's last: buckets are asked in this order, and while one of them has the caller wait, what
// earlier buckets granted is given back. A caller never holds tokens while it waits.
//
// With a waitlist (WaitIn), the caller takes a place in line with the tasks of the fleet. Without one it waits by
// itself: with a promise of the bucket until RetryAt, and where the bucket promises nothing until RetryAt and a little
// more, by chance. Callers without a promise may then overtake one another.
//
// While the store can't answer, nothing starts: Wait asks again with growing pauses until ctx ends. When ctx ends, the
// caller leaves the waitlist, and gives its reservation back before Wait returns, for which it takes at most
// CallTimeout.
//
// The error is an IsPermanent one at once. Or it is a *ChargeError of the charge that had the caller wait: it matches
// the cause of the end of ctx, and ErrUnavailable where the bucket could not be asked the last time. No charges start
// at once. Charges for the same bucket are ErrDuplicateCharge. The caller settles or cancels the Grant; else the
// estimate stays charged.
func (l *Limiter) Wait(ctx context.Context, charges ...Charge) (*Grant, error) {
	g, err := l.grant(charges)
	if err != nil {
		return nil, err
	}
	place := l.enter(ctx, g.claims)
	ask := func(_ *Claim, ask func(context.Context) error) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return ask(ctx)
	}
	for {
		stopped, err := l.Begin(ctx, g.claims, LateMost, ask)
		if stopped == nil {
			place.Begun()
			return g, nil
		}
		g.giveBack(ctx)
		if IsPermanent(err) {
			l.leave(ctx, place)
			return nil, err
		}
		ended := context.Cause(ctx)
		if err == nil || ended == nil { // what the bucket has just promised is given back by the place
			ended = place.Wait(ctx, stopped, err)
		}
		if ended != nil {
			l.leave(ctx, place)
			return nil, waitError(stopped, ended, err)
		}
		for _, c := range g.claims {
			c.Outcome = Outcome{} // its bucket is asked again
		}
	}
}

// Allow starts all charges at once or none: nothing is reserved, and the caller does not hold. Grant.Started says
// which; then settle or cancel the Grant as that of Wait. Grant.Outcomes says what remains: StateRefused comes with the
// earliest RetryAt if nothing else asks meanwhile. Allow never takes tokens that are promised to waiting tasks. A
// charge above a meter's capacity is ErrChargeTooLarge. Other errors as for Start; then none has started.
func (l *Limiter) Allow(ctx context.Context, charges ...Charge) (*Grant, error) {
	g, err := l.grant(charges)
	if err != nil {
		return nil, err
	}
	for i, c := range charges {
		g.claims[i].Charge.Shard = c.Shard
	}
	stopped, err := admit(g.claims, func(c *Claim) (err error) {
		if c.Outcome, err = l.one(ctx, c.Charge, bucket.Request{Op: bucket.OpAllow}); err == nil {
			c.Charge, c.Decided = c.Outcome.Charge, time.Now()
		}
		return err
	})
	if stopped != nil {
		g.giveBack(ctx)
	}
	if err != nil {
		return nil, err
	}
	return g, nil
}

// waitError is that of a Wait that ended; last is why the bucket could not be asked, nil if it could.
func waitError(stopped *Claim, ended, last error) error {
	if last != nil && !errors.Is(last, ended) {
		ended = fmt.Errorf("%w: %w", ended, last)
	}
	c := stopped.Charge
	return &ChargeError{Charge: c, Err: fmt.Errorf("wait for limit %s: %w", c.Bucket(), ended)}
}

// grant is that of charges which have not started.
func (l *Limiter) grant(charges []Charge) (*Grant, error) {
	if err := ValidateCharges(charges); err != nil {
		return nil, err
	}
	for _, c := range charges {
		limit, err := l.validate(c)
		if err == nil {
			err = c.validateWhole(limit)
		}
		if err != nil {
			return nil, err
		}
	}
	return &Grant{limiter: l, claims: newClaims(charges), id: rand.Text()}, nil
}

// giveBack cancels what has started, side by side, for at most CallTimeout. The caller keeps its reservations, and no
// lease: it has ended, or ends maybe later than the next one begins.
func (g *Grant) giveBack(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.limiter.timeout)
	defer cancel()
	_ = g.correct(g.claims.Started(), func(c *Claim) (o Outcome, err error) {
		o, err = g.limiter.Cancel(ctx, c.Charge, c.settlementID(g.id))
		c.Outcome = o
		return o, err
	})
	for _, c := range g.claims {
		c.Charge.Lease = 0
	}
}

// leave gives up a place, for at most CallTimeout.
func (l *Limiter) leave(ctx context.Context, place Place) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.timeout)
	defer cancel()
	place.Leave(ctx)
}

// correct changes what claims charge, side by side, and passes on the answers.
func (g *Grant) correct(claims Claims, one func(*Claim) (Outcome, error)) error {
	return sideBySide(len(claims), func(i int) error {
		o, err := one(claims[i])
		g.limiter.changed(claims[i].Charge.Bucket(), o)
		return err
	})
}
