package reservations

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/headway-go/headway/internal/bucket"
)

// Wait waits until all charges have started, all or nothing, and returns when the call may be made. Name the narrowest
// limit first and the provider's last: buckets are asked in this order, and while one of them has the caller wait, what
// earlier buckets granted is given back. A caller never holds tokens while it waits.
//
// After scheduler.Scheduler.TakeCallers, the caller takes a place in line with the tasks of the fleet. Without that it
// waits by itself: with a promise of the bucket until RetryAt, and where the bucket promises nothing until RetryAt and
// a little more, by chance. Callers without a promise may then overtake one another.
//
// While the store can't answer, nothing starts: Wait asks again with growing pauses until ctx ends. When ctx ends, the
// caller leaves the waitlist, and gives its reservation back before Wait returns, for which it takes at most
// CallTimeout.
//
// The error is an IsPermanent one at once. Or it is a *ChargeError of the charge that had the caller wait: it matches
// the cause of the end of ctx, and ErrUnavailable where the bucket could not be asked the last time. No charges start
// at once. Charges for the same bucket are ErrInvalidCharge. The caller settles or cancels the Grant; else the
// estimate stays charged.
func (l *Limiter) Wait(ctx context.Context, charges ...Charge) (*Grant, error) {
	g, err := l.grant(ctx, charges)
	if err != nil {
		return nil, err
	}
	l.starts.enter(ctx, g)
	ask := func(_ *claim, ask func(context.Context) error) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return ask(ctx)
	}
	var last error // why the bucket could not be asked, before ctx ended
	for {
		stopped, err := g.begin(ctx, bucket.LateMost, ask)
		if stopped == nil {
			g.place.Begun()
			return g, nil
		}
		g.giveBack(ctx)
		if IsPermanent(err) {
			g.leave(ctx)
			return nil, err
		}
		ended := context.Cause(ctx)
		if err == nil || ended == nil { // what the bucket has just promised is given back by the place
			last = err
			ended = g.place.Wait(ctx, slices.Index(g.claims, stopped), err)
		}
		if ended != nil {
			g.leave(ctx)
			return nil, waitError(stopped, ended, last)
		}
		for _, c := range g.claims {
			c.Outcome = Outcome{} // its bucket is asked again
		}
	}
}

// Allow starts all charges at once or none: nothing is reserved, and the caller does not hold. Grant.Started says
// which; then settle or cancel the Grant as that of Wait. Grant.Outcomes says what remains: a refusal comes with the
// earliest RetryAt if nothing else asks meanwhile. Allow never takes tokens that are promised to waiting tasks.
//
// The error is an IsPermanent one, or matches ErrUnavailable; then none has started. A charge above a meter's capacity
// is ErrChargeTooLarge.
func (l *Limiter) Allow(ctx context.Context, charges ...Charge) (*Grant, error) {
	g, err := l.grant(ctx, charges)
	if err != nil {
		return nil, err
	}
	for i, c := range charges {
		g.claims[i].Charge.Shard = c.Shard
	}
	stopped, err := admit(g.claims, func(c *claim) (err error) {
		asked := time.Now()
		if c.Outcome, err = l.starts.one(ctx, c.Charge, bucket.Request{Op: bucket.OpAllow}); err == nil {
			c.Charge = c.Outcome.Charge
			c.Decided, _ = l.starts.clock.moment(asked, time.Now(), c.Outcome.At)
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
func waitError(stopped *claim, ended, last error) error {
	if last != nil && !errors.Is(last, ended) {
		ended = fmt.Errorf("%w: %w", ended, last)
	}
	c := stopped.Charge
	return &ChargeError{Charge: c, Err: fmt.Errorf("wait for limit %s: %w", c.Bucket(), ended)}
}

// grant is that of charges which have not started, without what their limits do not allow.
func (l *Limiter) grant(ctx context.Context, charges []Charge) (*Grant, error) {
	if err := ValidateCharges(charges); err != nil {
		return nil, err
	}
	for _, c := range charges {
		if _, err := l.starts.servable(c); err != nil {
			return nil, err
		}
	}
	return l.starts.newGrant(l.starts.Permitted(ctx, charges), rand.Text(), direct{l.starts}), nil
}

// giveBack gives back what has started, for at most CallTimeout: then nothing has. The caller keeps its reservations,
// and no lease: it has ended, or ends maybe later than the next one begins.
func (g *Grant) giveBack(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.starts.timeout)
	defer cancel()
	started, left := g.claims.started(), map[BucketName]*Outcome{}
	for _, c := range started {
		left[c.Charge.Bucket()] = &Outcome{}
	}
	_ = g.correct(ctx, started, func(ctx context.Context, c claim) settlement {
		s := g.cancel(ctx, c)
		*left[c.Charge.Bucket()] = s.outcome
		return s
	})
	for _, c := range started {
		c.Outcome = *left[c.Charge.Bucket()]
	}
	for _, c := range g.claims {
		c.Charge.Lease = 0
	}
}

// leave gives up the place, for at most CallTimeout.
func (g *Grant) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.starts.timeout)
	defer cancel()
	g.place.Leave(ctx)
}

// direct is the link of a direct call: each answer goes to the waitlist, and each correction is sent at once.
type direct struct{ starts *starter }

func (d direct) Changed(o Outcome)                                              { d.starts.changed(o) }
func (direct) Settled(context.Context, Charge, Tokens, Outcome, error)          {}
func (direct) Send(ctx context.Context, send func(context.Context) error) error { return send(ctx) }
