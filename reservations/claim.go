package reservations

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/headway-go/headway/internal/bucket"
)

// Claim is one charge of a start that may have several, and the answer of its bucket.
type Claim struct {
	// Charge is what the start takes. Its Shard is set before the bucket is asked.
	Charge Charge
	// Held is what the caller holds because it waited for the bucket; nil where it is new there.
	Held *Reservation
	// Behind says that others wait for the bucket, and that the caller has to wait behind them.
	Behind bool
	// Outcome is the answer of the bucket; zero until it is asked.
	Outcome Outcome
	// Decided is when the bucket decided, on this machine's clock, and Latest when at the latest.
	Decided, Latest time.Time
}

// Claims are the charges that start together or not at all, in the order in which their buckets are asked: the
// narrowest first, the provider's last. Limiter.Wait and package worker start by them; most programs need neither.
type Claims []*Claim

// NewClaims are the claims of charges that have not started.
func NewClaims(charges []Charge) Claims {
	cs := make(Claims, len(charges))
	for i, c := range charges {
		c.Shard = 0 // the limiter chooses, or the waitlist says
		cs[i] = &Claim{Charge: c}
	}
	return cs
}

// Admit asks the buckets in order. It returns the first claim whose bucket does not let the task start, or can't be
// asked, with the error of ask. Nil means that all buckets let the task start. Ask first waits for the holds of the
// buckets before: so the provider's bucket, the last one, decides just before the call.
//
// If others wait for one of the buckets, the task waits there at once. To ask the buckets before it would take tokens
// that the task can't use, and later tasks would pass it while it holds for them.
func (cs Claims) Admit(ask func(*Claim) error) (stopped *Claim, err error) {
	if i := slices.IndexFunc(cs, func(c *Claim) bool { return c.Behind }); i >= 0 {
		return cs[i], ask(cs[i])
	}
	for _, c := range cs {
		if c.Outcome.Started() { // before another one's start came too late
			continue
		}
		if err := ask(c); err != nil || !c.Outcome.Started() {
			return c, err
		}
	}
	return nil, nil //nolint:nilnil // nothing stopped it
}

// Ask asks the bucket of the claim and sets its answer: a start, or where others wait for the bucket a reservation
// alone. Errors as for Start; then the claim has no answer.
func (l *Limiter) Ask(ctx context.Context, c *Claim) error {
	asked := time.Now()
	var o Outcome
	var err error
	if c.Behind {
		o, err = l.one(ctx, c.Charge, bucket.Request{Op: bucket.OpReserve})
	} else {
		o, err = l.Start(ctx, c.Charge, c.Held)
	}
	if err != nil {
		return err
	}
	c.Outcome, c.Charge.Shard, c.Charge.Lease, c.Charge.HoldEnd = o, o.Shard, o.Lease, o.HoldEnd
	c.Decided, c.Latest = l.clock.moment(asked, time.Now(), o.At)
	return nil
}

// Started are the claims whose bucket let the task start.
func (cs Claims) Started() (started Claims) {
	for _, c := range cs {
		if c.Outcome.Started() {
			started = append(started, c)
		}
	}
	return started
}

// Leased are the claims that have slots of calls in flight.
func (cs Claims) Leased() (leased Claims) {
	for _, c := range cs {
		if c.Charge.Lease.ID != 0 {
			leased = append(leased, c)
		}
	}
	return leased
}

// Ready is when the task may run, on this machine's clock: when every bucket has been waited for. A start that is too
// soon breaks the limit, so the latest moment counts at which a hold can have begun.
func (cs Claims) Ready() (ready time.Time) {
	for _, c := range cs {
		if at := c.Latest.Add(c.Outcome.Hold); at.After(ready) {
			ready = at
		}
	}
	return ready
}

// Charges are the charges of the claims, with the shards that answered, and leases.
func (cs Claims) Charges() (charges []Charge) {
	for _, c := range cs {
		charges = append(charges, c.Charge)
	}
	return charges
}

// Provider is the claim for the provider that serves the call: the last.
func (cs Claims) Provider() *Claim { return cs[len(cs)-1] }

// SettlementID names this start of the claim for Settle and Cancel: of is the name of what starts.
func (c *Claim) SettlementID(of string) string { return fmt.Sprintf("%s/%d", of, c.Decided.UnixNano()) }
