package reservations

import (
	"math/rand/v2"
	"time"
)

const (
	// leaseLasts is how long a call may go on after its lease was last renewed. Its own machine counts from before the
	// renewal was sent.
	leaseLasts = 20 * time.Second
	// leaseSpare is how much longer the bucket keeps the slots: for the call to end, for a decision by a store's clock
	// that is a little behind, and for clocks that drift.
	leaseSpare = 5 * time.Second
	// renewEvery is how often the leases of a bucket are renewed, all of a process together.
	renewEvery = leaseLasts / 4
	// renewAgain is how soon they are renewed again where the store did not answer.
	renewAgain = time.Second
)

// Lease is what a call has of a meter of calls in flight. A Keeper renews it; Settle and Cancel end it. A lease that is
// not renewed ends by itself within 26 seconds, e.g. that of a process that was killed.
type Lease struct {
	// ID distinguishes the leases of a bucket. Zero for none.
	ID int64
	// End is when the call has to have ended unless the lease is renewed, on this machine's clock.
	End time.Time
}

// leased gives a start that takes slots a lease, unless it has one.
func (l Limit) leased(r Request) (Request, Lease) {
	if r.Op != OpStart && r.Op != OpAllow || !l.takesSlots(r.Tokens) {
		return r, Lease{}
	}
	if r.Lease == 0 {
		r.Lease = rand.Int64() | 1 //nolint:gosec // distinguishes leases, needs no secrecy
	}
	r.For = leaseLasts + leaseSpare
	return r, Lease{ID: r.Lease, End: time.Now().Add(leaseLasts)}
}
