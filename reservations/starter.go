package reservations

import (
	"context"
	"slices"
	"sync/atomic"
	"time"
)

// starter starts calls in steps: it asks their buckets in order, keeps their leases, and holds what it knows of the
// store's clock. Limiter and package worker stand on it: see package inside. Safe for concurrent use.
type starter struct {
	*buckets

	keeper   keeper
	clock    storeClock
	delays   startDelays
	waitlist atomic.Pointer[waitlist] // nil: callers wait by themselves
}

// Start is for a program that starts charges by itself: see start.Begin. Most programs call Do or Wait.
func (s *starter) Start(charges []Charge, id string, to link) start {
	return start{s.newGrant(charges, id, to)}
}

// start is a Grant in steps. Its exported methods are for package worker and the dispatcher: see package inside.
type start struct{ *Grant }

// Begin starts the charges, all or none, and returns the position of the one that did not let the caller start: -1 if
// all have started, and the call may be made now. Starts that come by more than late too late ask their buckets again.
// Each is called for each bucket. It calls ask, or returns an error of its own; again says that a start came too late.
// What has started is the caller's to give back.
func (g start) Begin(
	ctx context.Context, late time.Duration,
	each func(c Charge, again bool, ask func(context.Context) error) error,
) (stopped int, err error) {
	c, err := g.begin(ctx, late, func(c *claim, ask func(context.Context) error) error {
		return each(c.Charge, !c.Decided.IsZero(), ask)
	})
	return slices.Index(g.claims, c), err
}

// Charges are the charges as they are now, with the shards that answered, and leases.
func (g start) Charges() []Charge { return g.claims.charges() }

// SetCharge sets the charge at a position before its bucket is asked: its Shard, and what the caller holds there.
// Behind says that others wait for the bucket, and that the caller has to wait behind them.
func (g start) SetCharge(i int, c Charge, behind bool) {
	g.claims[i].Charge, g.claims[i].Behind = c, behind
}

// Decided is when the bucket of a charge decided, on this machine's clock; zero until it has answered.
func (g start) Decided(i int) time.Time { return g.claims[i].Decided }

// Ready is when the call may be made, on this machine's clock: when every bucket has been waited for.
func (g start) Ready() time.Time { return g.claims.ready() }

// TakePlace gives the caller its place in a waitlist, and Place returns that.
func (g start) TakePlace(p place) { g.place = p }

// Place is the place of the caller in a waitlist; nil where it has none.
func (g start) Place() place { return g.place }
