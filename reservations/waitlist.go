package reservations

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/headway-go/headway/internal/pause"
)

// Waitlist is where callers of Wait and Do wait in line with the tasks of a fleet: a *scheduler.Scheduler.
type Waitlist interface {
	// Enter is called for a new caller. It sets Behind of the claims, which are the caller's from then on, and the Shard
	// and Held of their charges, and never fails: where the waitlist can't be read, the caller is new and has others
	// before it nowhere.
	Enter(ctx context.Context, claims Claims) Place
	// Changed passes on the answer of a bucket to a settlement, a cancellation or a block. It never blocks.
	Changed(bucket string, o Outcome)
}

// Place is one caller in a Waitlist. Its methods are called one after the other.
type Place interface {
	// Wait returns when the caller has to ask its buckets again: its turn has come. The bucket of the claim did not let
	// it start, or could not be asked, because of cause. It sets the claims as Enter does. The error says why the
	// caller waits no longer: that of ctx above all.
	Wait(ctx context.Context, stopped *Claim, cause error) error
	// Begun says that all claims have started: the caller waits no more.
	Begun()
	// Leave gives up the place and what the caller holds. What can't be given back heals by refill.
	Leave(ctx context.Context)
}

// WaitIn lets callers of Wait and Do wait in w from now on, in line with the tasks that wait there. Without it they
// wait by themselves: see Wait. Call it before the first Wait. A nil Waitlist is a panic.
func (l *Limiter) WaitIn(w Waitlist) {
	if w == nil {
		panic("reservations: WaitIn needs a Waitlist, and it is nil")
	}
	l.waitlist.Store(&w)
}

// enter is the place of a new caller.
func (l *Limiter) enter(ctx context.Context, claims Claims) Place {
	if w := l.waitlist.Load(); w != nil {
		return (*w).Enter(ctx, claims)
	}
	for _, c := range claims {
		c.Charge = l.Choose(c.Charge)
	}
	return &alone{limiter: l, claims: claims}
}

// changed passes on the answer of a bucket.
func (l *Limiter) changed(bucket string, o Outcome) {
	if w := l.waitlist.Load(); w != nil {
		(*w).Changed(bucket, o)
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
	limiter *Limiter
	claims  Claims
	refused int // how often in a row a bucket did not let it start
}

// Wait keeps the promise of the bucket, and waits until it can start. A caller whose promise is not enough, or that
// has none, waits a little longer, by chance.
func (a *alone) Wait(ctx context.Context, stopped *Claim, cause error) error {
	until := time.Now()
	switch {
	case cause != nil:
		until = until.Add(retryIn(a.refused))
	case stopped.Outcome.State == StateReserved:
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
		_, _ = a.limiter.Release(ctx, c.Charge) // heals by refill
	}
}
