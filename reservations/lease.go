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

// leased gives a start that takes slots a lease, unless it has one, and returns its end; zero for other requests.
func leased(l bucket.Limit, r bucket.Request) (bucket.Request, time.Time) {
	if r.Op != bucket.OpStart && r.Op != bucket.OpAllow || !l.TakesSlots(r.Tokens) {
		return r, time.Time{}
	}
	if r.Lease == 0 {
		r.Lease = rand.Int64() | 1 //nolint:gosec // distinguishes leases, needs no secrecy
	}
	r.For = bucket.LeaseKept
	return r, time.Now().Add(bucket.LeaseLasts)
}
