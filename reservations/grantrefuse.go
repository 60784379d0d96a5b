package reservations

import (
	"cmp"
	"context"
	"time"
)

// Block lets nothing start in the bucket of the last charge for d, at most for the limit's max_block: the provider
// refused the call. While the store is unavailable it keeps trying for what is left of d, until ctx ends.
func (g *Grant) Block(ctx context.Context, d time.Duration) error {
	c := g.provider()
	if c == nil {
		return nil
	}
	_, err := g.passOn(g.starts.Block(ctx, c.Charge, d))
	return err
}

// Refuse stops the bucket of the last charge, because the provider refused the call: see RetryAfterError. It does
// nothing without charges, and for a refusal from elsewhere.
func (g start) Refuse(ctx context.Context, refusal *RetryAfterError) ([]Outcome, error) {
	c := g.provider()
	if c == nil || refusal.Elsewhere {
		return nil, nil
	}
	return g.passOn(g.starts.Refuse(ctx, c.Charge, refusal, g.caller(), c.Outcome.At))
}

// Answered says that the call had a good answer, if the provider's bucket waits for one.
func (g start) Answered(ctx context.Context) (Outcome, error) {
	c := g.provider()
	if c == nil {
		return Outcome{}, nil
	}
	o, err := g.starts.answered(ctx, c.Outcome, g.caller())
	g.link.Changed(o)
	return o, err
}

func (g *Grant) passOn(outcomes []Outcome, err error) ([]Outcome, error) {
	for _, o := range outcomes {
		g.link.Changed(o)
	}
	return outcomes, err
}

// caller names the caller of the Grant to its provider's bucket.
func (g *Grant) caller() string { return cmp.Or(flowOf(g.claims.charges()), g.id) }
