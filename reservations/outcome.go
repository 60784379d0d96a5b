package reservations

import (
	"time"

	"github.com/headway-go/headway/internal/bucket"
)

// State is the answer of a bucket, in one word.
type State = bucket.State

const (
	// StateStarted means that the task starts when Outcome.Hold is over.
	StateStarted = bucket.StateStarted
	// StateReserved means that the task waits, and that the bucket has promised its tokens.
	StateReserved = bucket.StateReserved
	// StateWaiting means that the task waits without a new promise: max_reserved or max_wait leaves no room for one, or
	// the task was promoted and came too early.
	StateWaiting = bucket.StateWaiting
	// StateRefused means that an Allow did not start, or that a lease is not there any more. Nothing was changed.
	StateRefused = bucket.StateRefused
	// StateSettled is the answer to a request that starts and promises nothing: a settlement, a release, a block, a
	// sync.
	StateSettled = bucket.StateSettled
)

// Outcome is the answer of a bucket to a Limiter.
type Outcome struct {
	State State
	// Charge is the charge that was asked for, with what the bucket answered for it: Start with it after a wait, and Keep,
	// Settle or Cancel it after a start.
	Charge Charge
	// Hold is how long a started task has to wait in its worker, at most 250 ms.
	Hold time.Duration
	// RetryAt is when the task could start if nothing else asks meanwhile, and for a block when the block in force
	// ends. Zero where the task starts.
	RetryAt time.Time
	// At is the moment of the answer on the store's clock, as RetryAt is.
	At time.Time
	// Bucket is the bucket after the request, or a later state of it, in a form of Headway's own packages. The
	// dispatcher plans with it. FullAt is when the bucket is full, if nothing else happens.
	Bucket bucket.Bucket
}

// outcome is the answer to a charge.
func outcome(a bucket.Answer, c Charge) Outcome {
	c.HoldEnd = a.HoldEnd()
	if c.Held == "" && (a.State == StateReserved || a.State == StateWaiting) {
		c.Held = a.State
	}
	return Outcome{State: a.State, Charge: c, Hold: a.Hold, RetryAt: a.RetryAt, At: a.At, Bucket: a.Bucket}
}

// Started says whether the task starts.
func (o Outcome) Started() bool { return o.State == StateStarted }

// Wait is how long after the answer RetryAt is; zero for a task that starts.
func (o Outcome) Wait() time.Duration {
	return bucket.Answer{RetryAt: o.RetryAt, At: o.At}.Wait()
}

// Remaining is what a new ordinary task could take from each meter at the moment of the answer, in tokens: what is
// neither taken nor promised nor headroom. It is never negative, and zero during a block. A web handler shows it as
// X-RateLimit-Remaining, Wait as Retry-After, and Bucket.FullAt as the reset. Where the limit has Shards, it is that of
// the shard. A meter that the limit lost may be named until it is full.
func (o Outcome) Remaining() Tokens {
	left := Tokens{}
	for _, m := range o.Bucket.Meters {
		left[m.Name] = 0
		if !o.Bucket.Blocked.After(o.At) {
			left[m.Name] = max(0, m.Reserved-m.Filling.Headroom)
		}
	}
	return left
}
