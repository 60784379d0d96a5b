package worker

import (
	"sync"
	"time"

	"github.com/headway-go/headway/reservations"
)

// staleAfter is how much later than it was admitted a task may start: a provider's bucket bears about as much for requests that
// travel at different speeds.
const staleAfter = 50 * time.Millisecond

// pace knows how long the store usually takes to answer, so that what takes longer is noticed, wherever it was lost: in this
// process, on the network, in the store. The zero value has seen no answer.
type pace struct {
	mu    sync.Mutex // guards usual
	usual time.Duration
}

// answered takes note of one answer and returns what is usual: the shortest of late, drifting up slowly.
func (p *pace) answered(took time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.usual == 0 || took < p.usual {
		p.usual = took
	} else {
		p.usual += (took - p.usual) / 100
	}
	return p.usual
}

// stale says whether the task would start so much later than it was admitted that it could meet, at the provider, those that
// were admitted after it. It is asked once for each task: one that comes back as late starts in any case, so that a machine
// which is always too slow still gets on.
func (d *delivery) stale(now time.Time) bool {
	return d.place.State != reservations.StateLate && now.Sub(d.asked)-d.usual-d.outcome.Hold > staleAfter
}
