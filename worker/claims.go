package worker

import (
	"time"

	"github.com/headway-go/headway/internal/engine"
	"github.com/headway-go/headway/reservations"
)

// claims are what a task charges, which starts together or not at all.
type claims []*reservations.Claim

func (cs claims) charges() []reservations.Charge { return engine.Charges(cs) }

// started are the claims whose bucket let the task start.
func (cs claims) started() (started claims) {
	for _, c := range cs {
		if c.Outcome.Started() {
			started = append(started, c)
		}
	}
	return started
}

// leased are the claims that have slots of calls in flight.
func (cs claims) leased() (leased claims) {
	for _, c := range cs {
		if c.Charge.Lease != 0 {
			leased = append(leased, c)
		}
	}
	return leased
}

// ready is when the last hold was over.
func (cs claims) ready() (ready time.Time) {
	for _, c := range cs {
		if c.Ready.After(ready) {
			ready = c.Ready
		}
	}
	return ready
}

// provider is the claim for the provider that serves the call: the last.
func (cs claims) provider() *reservations.Claim { return cs[len(cs)-1] }
