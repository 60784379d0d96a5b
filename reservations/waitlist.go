package reservations

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/calls/pause"
)

// waitlist is where callers of Wait and Do wait in line with the tasks of a fleet: the dispatcher.
type waitlist interface {
	// Enter is called for a new caller. It sets the place of the Grant (start.TakePlace), its charges with their Shard
	// and Held, and behind which of them others wait (start.SetCharge). It never fails: where the waitlist can't be read,
	// the caller is new and has others before it nowhere.
	Enter(ctx context.Context, g *Grant)
	// Changed passes on the answer of a bucket to a settlement, a cancellation or a block: that of the Outcome's Charge.
	// A zero Outcome is none. It never blocks.
	Changed(o Outcome)
}

// place is one caller in a waitlist. Its methods are called one after the other.
type place interface {
	// Wait returns when the caller has to ask its buckets again: its turn has come. The bucket of the stopped charge did
	// not let it start, or could not be asked, because of cause. It sets the charges as Enter does. The error says why
	// the caller waits no longer: that of ctx above all.
	Wait(ctx context.Context, stopped int, cause error) error
	// Begun says that all charges have started: the caller waits no more.
	Begun()
	// Leave gives up the place and what the caller holds. What can't be given back heals by refill.
	Leave(ctx context.Context)
}

// WaitIn lets callers of Wait and Do wait in w from now on, in line with the tasks that wait there. Without it they
// wait by themselves: see Wait. Call it before the first Wait.
func (s *starter) WaitIn(w waitlist) { s.waitlist.Store(&w) }

// enter gives a new caller its place.
func (s *starter) enter(ctx context.Context, g *Grant) {
	if w := s.waitlist.Load(); w != nil {
		(*w).Enter(ctx, g)
		return
	}
	for _, c := range g.claims {
		c.Charge = s.Choose(c.Charge)
	}
	g.place = &alone{buckets: s.buckets, claims: g.claims}
}

// changed passes on the answer of a bucket.
func (s *starter) changed(o Outcome) {
	if w := s.waitlist.Load(); w != nil {
		(*w).Changed(o)
	}
}

const (
	// jitterMin and jitterMost bound by how much later than RetryAt a caller without a promise asks again: otherwise
	// all callers would ask at the moment at which one can start.
	jitterMin  = 25 * time.Millisecond
	jitterMost = time.Second
	// slotAgain is how soon such a caller asks again for a call in flight at most.
	slotAgain = 250 * time.Millisecond
)

// alone is a caller that waits by itself, until RetryAt.
type alone struct {
	buckets *buckets
	claims  claims
	refused int // how often in a row a bucket did not let it start
}

// Wait keeps the promise of the bucket, and waits until it can start. A caller whose promise is not enough, or that
// has none, waits a little longer, by chance.
func (a *alone) Wait(ctx context.Context, at int, cause error) error {
	stopped := a.claims[at]
	until := time.Now()
	switch {
	case cause != nil:
		until = until.Add(retryIn(a.refused))
	case stopped.Outcome.State == bucket.StateReserved:
		until = stopped.Decided.Add(stopped.Outcome.Wait())
	default:
		jitter := min(jitterMin<<min(a.refused, 6), jitterMost)
		wait := stopped.Outcome.Wait()
		if stopped.Outcome.Bucket.InFlight() { // a call may end at any time
			wait = min(wait, slotAgain)
		}
		until = stopped.Decided.Add(wait + rand.N(jitter)) //nolint:gosec // jitter needs no secrecy
	}
	a.refused++
	if cause == nil {
		stopped.Charge.Held = stopped.Outcome.Charge.Held
	}
	if pause.For(ctx, time.Until(until)) != nil {
		return context.Cause(ctx)
	}
	return nil
}

func (*alone) Begun() {}

func (a *alone) Leave(ctx context.Context) {
	for _, c := range a.claims {
		_, _ = a.buckets.Release(ctx, c.Charge) // heals by refill
	}
}
