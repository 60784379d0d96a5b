package reservations

import (
	"cmp"
	"context"
	"errors"
	"time"
)

// Grant holds the charges of one call, which start together, or not at all: see Started. If they have started, the
// call may be made, and the caller settles or cancels the Grant once. A Grant of an Allow that did not start holds
// nothing, and to settle or cancel it does nothing.
type Grant struct {
	limiter *Limiter
	claims  Claims
	id      string // names its starts
}

// Started says whether all charges have started. It is true for a Grant of Wait.
func (g *Grant) Started() bool { return len(g.claims.Started()) == len(g.claims) }

// Outcomes are the last answers of the buckets, in the order of the charges; see Outcome.Remaining. An outcome is zero
// where the bucket was not asked, because one before it refused.
func (g *Grant) Outcomes() []Outcome {
	all := make([]Outcome, len(g.claims))
	for i, c := range g.claims {
		all[i] = c.Outcome
	}
	return all
}

// Keep renews the leases that the Grant has of calls in flight until stop is called, which may be called again;
// settle or cancel after that. Make the call with the context, which ends before a lease does: see Limiter.Keep. Do
// keeps by itself.
func (g *Grant) Keep(ctx context.Context) (kept context.Context, stop func()) {
	return g.limiter.Keep(ctx, g.limiter.changed, g.claims.Charges()...)
}

// Settle replaces the estimates by what the call used, in every limit that has the meter. Nil, and a meter that is not
// named, were as estimated. While the store is unavailable Settle tries again until ctx ends. The error joins the
// errors of Limiter.Settle.
func (g *Grant) Settle(ctx context.Context, used Tokens) error {
	shares := g.limiter.Shares(ctx, g.claims.Charges(), used)
	return g.correct(g.claims.Started(), func(c *Claim) (Outcome, error) {
		return g.limiter.Settle(ctx, c.Charge, shares[c.Charge.Bucket()], c.settlementID(g.id))
	})
}

// Cancel gives back all that was taken: the call was not made. Otherwise it is as Settle; of the two, the first counts.
func (g *Grant) Cancel(ctx context.Context) error {
	return g.correct(g.claims.Started(), func(c *Claim) (Outcome, error) {
		charge := c.Charge
		charge.Held = "" // the caller gives up
		return g.limiter.Cancel(ctx, charge, c.settlementID(g.id))
	})
}

// Block lets nothing start in the bucket of the last charge for d: the provider refused the call. See Limiter.Block.
func (g *Grant) Block(ctx context.Context, d time.Duration) error {
	if len(g.claims) == 0 {
		return nil
	}
	c := g.claims[len(g.claims)-1].Charge
	return g.passOn(g.limiter.Block(ctx, c, d))
}

// refuse stops the bucket of the last charge, because the provider refused the call.
func (g *Grant) refuse(ctx context.Context, refusal *RetryAfterError) error {
	if len(g.claims) == 0 || refusal.Elsewhere {
		return nil
	}
	c := g.claims[len(g.claims)-1]
	return g.passOn(g.limiter.Refuse(ctx, c.Charge, Refusal{
		After: refusal.After, Reason: refusal.Reason, By: g.caller(), At: c.Outcome.At,
	}))
}

func (g *Grant) passOn(outcomes []Outcome, err error) error {
	for _, o := range outcomes {
		if !o.At.IsZero() {
			g.limiter.changed(o.Charge.Bucket(), o)
		}
	}
	return err
}

// caller names the caller of the Grant to its provider's bucket.
func (g *Grant) caller() string { return cmp.Or(FlowOf(g.claims.Charges()), g.id) }

// Shares says of each bucket of the charges what was used of its meters. What no limit of them has is left to the last,
// whose settlement names it in its error. Without charges there are no shares.
func (l *Limiter) Shares(ctx context.Context, charges []Charge, used Tokens) map[string]Tokens {
	shares, known := map[string]Tokens{}, map[string]bool{}
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

// ErrNotCalled is returned by a call under Do, or by a task's handler, that was never made: all that it took is given
// back, whatever the SettleMode.
var ErrNotCalled = errors.New("reservations: the call was not made")

// NotCalled returns err so that it matches ErrNotCalled as well. Of nil it returns ErrNotCalled.
func NotCalled(err error) error {
	if err == nil {
		return ErrNotCalled
	}
	return notCalledError{err}
}

type notCalledError struct{ error }

func (e notCalledError) Unwrap() []error { return []error{e.error, ErrNotCalled} }

// Do waits until all charges have started (see Wait), calls, and settles. The error is that of Wait, or that of call as
// it is. A nil call is an error, and nothing is taken. How call ends decides what stays charged:
//
//   - used is what it really used, also beside an error: Settle. Nil means that the estimate was right.
//   - ErrNotCalled: all is given back, whatever used says.
//   - RetryAfter and Refused: the provider refused the call, which stops the bucket of the last charge: see
//     Limiter.Refuse. Then used is settled. Do does not call again.
//   - a panic goes on to the caller of Do, and the estimate stays charged.
//
// The settlement and the block outlive ctx, and Do waits for each at most CallTimeout. Where the store does not answer
// within it, the estimate stays charged, and refill heals that: this is no error of Do. An amount in used that can't be
// is one, beside that of call.
func (l *Limiter) Do(ctx context.Context, charges []Charge, call func(context.Context) (Tokens, error)) error {
	if call == nil {
		return errors.New("reservations: Do needs a call, and it is nil")
	}
	g, err := l.Wait(ctx, charges...)
	if err != nil {
		return err
	}
	panicked := true
	defer func() {
		if panicked {
			_ = g.end(ctx, nil, nil)
		}
	}()
	kept, stop := g.Keep(ctx)
	defer stop()
	used, err := call(kept)
	stop()
	panicked = false
	return g.end(ctx, used, err)
}

// end settles as the call ended, and returns its error.
func (g *Grant) end(ctx context.Context, used Tokens, err error) error {
	bounded := func(do func(context.Context) error) error {
		after, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.limiter.timeout)
		defer cancel()
		if fault := do(after); !errors.Is(fault, ErrUnavailable) {
			return fault
		}
		return nil
	}
	settle := func(ctx context.Context) error { return g.Settle(ctx, used) }
	if errors.Is(err, ErrNotCalled) {
		settle = g.Cancel
	} else if refusal, refused := errors.AsType[*RetryAfterError](err); refused {
		_ = bounded(func(ctx context.Context) error { return g.refuse(ctx, refusal) })
	} else if err == nil && len(g.claims) > 0 {
		c := g.claims[len(g.claims)-1]
		_ = bounded(func(ctx context.Context) error {
			o, failed := g.limiter.Answered(ctx, c.Outcome, g.caller())
			g.limiter.changed(c.Charge.Bucket(), o)
			return failed
		})
	}
	if fault := bounded(settle); fault != nil {
		return errors.Join(err, fault)
	}
	return err // as it is
}
