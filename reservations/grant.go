package reservations

import (
	"context"
	"sync"

	"github.com/headway-go/headway/internal/inside"
)

// Grant holds the charges of one call, which start together, or not at all: see Started. If they have started, the
// call may be made, and the caller settles or cancels the Grant once. A Grant of an Allow that did not start holds
// nothing, and to settle or cancel it does nothing. Settle and Cancel are safe for concurrent use.
type Grant struct {
	grantHolder // of its start, for Headway's own packages

	starts *starter
	claims claims
	id     string // names the call, e.g. its task
	link   link
	place  place // in a waitlist; nil for a call that has none

	mu      sync.Mutex // guards the fields below
	lowered claims     // what is charged since Lower; nil before
	settled bool       // nothing is lowered any more
}

type grantHolder = inside.Holder[start]

// link joins a Grant to a program that starts, retries and reports by itself, as package worker does.
type link interface {
	// Changed gets each answer of a bucket, and must not block. A zero Outcome is none.
	Changed(o Outcome)
	// Settled gets each correction of what a start took from one bucket: what was used of the charge's meters, and the
	// answer of the bucket, zero where there was nothing to correct. A meter that is not named was used as estimated.
	// Err is why the bucket has not answered.
	Settled(ctx context.Context, c Charge, used Tokens, o Outcome, err error)
	// Send sends corrections, maybe later and beside others. Its result is that of Settle and its like.
	Send(ctx context.Context, send func(context.Context) error) error
}

// newGrant is that of charges which have not started. Two grants with one ID must not be decided in the same
// nanosecond.
func (s *starter) newGrant(charges []Charge, id string, to link) *Grant {
	g := &Grant{starts: s, claims: newClaims(charges), id: id, link: to}
	g.grantHolder = inside.Hold(start{g})
	return g
}

// Started says whether all charges have started. It is true for a Grant of Wait.
func (g *Grant) Started() bool { return len(g.claims.started()) == len(g.claims) }

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
// settle or cancel after that. Make the call with the context, which ends before a lease does, with a cause that
// matches ErrLeaseLost: where the store does not answer for 20 seconds, and at the next renewal where the bucket has
// forgotten the lease. Do keeps by itself.
func (g *Grant) Keep(ctx context.Context) (kept context.Context, stop func()) {
	return g.starts.keeper.keepAll(ctx, g.link.Changed, g.claims.charges()...)
}

// provider is the claim of the last charge, whose bucket is that of the provider; nil without charges.
func (g *Grant) provider() *claim {
	if len(g.claims) == 0 {
		return nil
	}
	return g.claims[len(g.claims)-1]
}
