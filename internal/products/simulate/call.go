package simulate

import (
	"fmt"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/reservations"
)

// Call is one call that has to be made.
type Call struct {
	// At is when it arrives, since the start. Not negative.
	At time.Duration
	// Charges are what it takes, the narrowest limit first, the provider's last; at least one. Calls may share them.
	Charges []reservations.Charge
	// Used is what the call turns out to use, by meter, in each of its limits. A meter that is not named is used as
	// charged. Calls may share it.
	Used reservations.Tokens
	// Latency is how long the call takes. Not negative.
	Latency time.Duration
	// Line is where the call was read from, for errors; zero if it is not from a file.
	Line int
}

// name is what errors call the call of a number.
func (c Call) name(n int) string {
	if c.Line > 0 {
		return fmt.Sprintf("line %d", c.Line)
	}
	return fmt.Sprintf("call %d", n+1)
}

// claim is one charge of a running call, and what the call has there.
type claim struct {
	charge  *reservations.Charge
	box     *box
	tokens  []float64
	held    bucket.State // what the call has in the bucket as a waiting one; empty where it is new there
	placed  bool
	place   place
	started bool
	holdEnd time.Time
}

// running is a call from its arrival to its end.
type running struct {
	*Call

	n        int
	flow     int // index in fleet.flows
	claims   []claim
	at       *box // whose waitlist the call is in, or was promoted from
	slot     bool // it has a worker's slot
	asked    int  // the number of claims that let it start
	lease    int64
	refusals int           // in a row
	blocked  time.Duration // for which its refusals asked
}

// urgent says whether the charge does not wait behind others.
func (c *claim) urgent() bool { return c.charge.Urgent && c.box.headroom }
