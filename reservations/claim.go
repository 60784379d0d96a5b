package reservations

import (
	"slices"
	"time"

	"github.com/headway-go/headway/internal/bucket"
)

// claim is one charge of several that start together or not at all, and the answer of its bucket.
type claim struct {
	// Charge is what the start takes. Its Shard and Held are set before the bucket is asked.
	Charge Charge
	// Behind says that others wait for the bucket, and that the caller has to wait behind them.
	Behind bool
	// Outcome is the answer of the bucket; zero until it is asked.
	Outcome Outcome
	// Decided is when the bucket decided, and Ready when the hold of a start is over at the latest: both on this machine's
	// clock, and zero until the bucket has answered.
	Decided, Ready time.Time
}

// start is the answer of the bucket with the charge as it is now.
func (c *claim) start() Outcome {
	o := c.Outcome
	o.Charge = c.Charge
	return o
}

// claims are what one call or task charges, which starts together or not at all.
type claims []*claim

// charges are the charges of the claims, with the shards that answered, and leases.
func (cs claims) charges() []Charge {
	all := make([]Charge, len(cs))
	for i, c := range cs {
		all[i] = c.Charge
	}
	return all
}

// started are the claims whose bucket let the caller start.
func (cs claims) started() (started claims) {
	for _, c := range cs {
		if c.Outcome.Started() {
			started = append(started, c)
		}
	}
	return started
}

// leased are the claims that have slots of calls in flight.
func (cs claims) leased() claims {
	return slices.DeleteFunc(slices.Clone(cs), func(c *claim) bool { return c.Charge.Lease == 0 })
}

// ready is when the caller may go on, on this machine's clock: when every bucket has been waited for.
func (cs claims) ready() (ready time.Time) {
	for _, c := range cs {
		ready = bucket.Later(ready, c.Ready)
	}
	return ready
}

// newClaims are the claims of charges that have not started.
func newClaims(charges []Charge) claims {
	all := make(claims, len(charges))
	for i, c := range charges {
		c.Shard, c.Held, c.Lease = 0, "", 0 // the limiter chooses, or the waitlist says
		all[i] = &claim{Charge: c}
	}
	return all
}
