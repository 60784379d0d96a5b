package reservations

import (
	"context"
	"slices"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/calls/pause"
)

// askMost is how often a start is asked for in all. The last one counts although it is late: a machine that is slow for
// long makes its calls all the same.
const askMost = 3

// begin starts the charges, all or none: it asks their buckets in order, and waits for the hold of each before it asks
// the next one. So the provider's bucket, the last one, decides just before the call. Starts that come by more than
// late later than granted, and than is typical, could meet at the provider starts that were granted later: they are
// given back, and their buckets asked again, in one round trip. The third start counts although it is late.
//
// If others wait for one of the buckets, only that bucket is asked, and the caller waits there. To ask the buckets
// before it would take tokens that the caller can't use, and later callers would pass it while it holds for them.
//
// begin returns the claim that did not let the caller start; nil if all have started, and the call may be made now. The
// error is that of each, or the cause of the end of ctx, which ends a hold. What has started is the caller's to give
// back: see start.GiveBack.
//
// Each is called for each bucket. It calls ask, which has the errors of Ask and sets the claim's answer, or returns
// an error of its own.
func (g *Grant) begin(
	ctx context.Context, late time.Duration, each func(c *claim, ask func(context.Context) error) error,
) (stopped *claim, err error) {
	s, claims := g.starts, g.claims
	hold := func() error {
		if left := time.Until(claims.ready()); left > 0 && pause.For(ctx, left) != nil {
			return context.Cause(ctx)
		}
		return nil
	}
	for asked := 1; ; asked++ {
		stopped, err = admit(claims, func(c *claim) error {
			if ended := hold(); ended != nil {
				return ended
			}
			return each(c, func(ctx context.Context) error { return s.askClaim(ctx, c) })
		})
		if stopped != nil || len(claims) == 0 {
			return stopped, err
		}
		if err = hold(); err != nil {
			return claims[len(claims)-1], err
		}
		if asked == askMost || !s.tooLate(claims, late) {
			return nil, nil //nolint:nilnil // all have started
		}
	}
}

// admit asks the buckets in order. It returns the first claim whose bucket does not let the caller start, or can't be
// asked, with the error of ask. Nil means that all buckets let the caller start.
func admit(claims claims, ask func(*claim) error) (stopped *claim, err error) {
	if i := slices.IndexFunc(claims, func(c *claim) bool { return c.Behind }); i >= 0 {
		return claims[i], ask(claims[i])
	}
	for _, c := range claims {
		if err := ask(c); err != nil || !c.Outcome.Started() {
			return c, err
		}
	}
	return nil, nil //nolint:nilnil // nothing stopped it
}

// askClaim asks the bucket of the claim and sets its answer: a start, or where others wait for the bucket a reservation
// alone. A claim that has started is given back before. Errors as for Ask; then the claim has no answer.
func (s *starter) askClaim(ctx context.Context, c *claim) error {
	asked := time.Now()
	var o Outcome
	var err error
	switch {
	case c.Behind:
		o, err = s.one(ctx, c.Charge, bucket.Request{Op: bucket.OpReserve})
	case c.Outcome.Started(): // too late
		o, err = s.askAgain(ctx, c.start())
	default:
		o, err = s.Ask(ctx, c.Charge)
	}
	if err != nil {
		c.Outcome = Outcome{} // a late start may have been given back
		return err
	}
	held := c.Charge.Held // of before: others decide whether the caller goes on to wait
	c.Outcome, c.Charge = o, o.Charge
	c.Charge.Held = held
	c.Decided, c.Ready = s.clock.moment(asked, time.Now(), o.At)
	c.Ready = c.Ready.Add(o.Hold)
	return nil
}
