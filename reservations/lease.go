package reservations

import (
	"math/rand/v2"
	"time"

	"github.com/headway-go/headway/internal/bucket"
)

const (
	// renewEvery is how often the leases of a bucket are renewed, all of a process together.
	renewEvery = bucket.LeaseLasts / 4
	// renewAgain is how soon they are renewed again where the store did not answer.
	renewAgain = time.Second
)

// Lease is what a call has of a meter of calls in flight. Limiter.Keep renews it; Settle and Cancel end it. A lease
// that is not renewed ends by itself within 26 seconds, e.g. that of a process that was killed.
type Lease struct {
	// ID distinguishes the leases of a bucket. Zero for none.
	ID int64
	// End is when the call has to have ended unless the lease is renewed, on this machine's clock.
	End time.Time
}

// leased gives a start that takes slots a lease, unless it has one.
func leased(l bucket.Limit, r bucket.Request) (bucket.Request, Lease) {
	if r.Op != bucket.OpStart && r.Op != bucket.OpAllow || !l.TakesSlots(r.Tokens) {
		return r, Lease{}
	}
	if r.Lease == 0 {
		r.Lease = rand.Int64() | 1 //nolint:gosec // distinguishes leases, needs no secrecy
	}
	r.For = bucket.LeaseKept
	return r, Lease{ID: r.Lease, End: time.Now().Add(bucket.LeaseLasts)}
}
