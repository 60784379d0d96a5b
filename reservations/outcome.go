package reservations

import (
	"time"

	"github.com/headway-go/headway/internal/bucket"
)

// Outcome is the answer of a bucket to a Limiter.
type Outcome struct {
	// State is the answer in one word. The call has "started"; it waits and its tokens are promised ("reserved"), or it
	// waits without a promise ("waiting"); it was "refused" and nothing changed; or a request that starts nothing is
	// done ("settled").
	State string
	// Charge is the charge that was asked for. Its Bucket is the one that answered: a shard where the limit has Shards.
	Charge Charge
	// Hold is how long a started task has to wait in its worker, at most 250 ms.
	Hold time.Duration
	// RetryAt is when the task could start if nothing else asks meanwhile, and for a block when the block in force
	// ends. Zero where the task starts.
	RetryAt time.Time
	// At is the moment of the answer on the store's clock, as RetryAt is.
	At time.Time

	left
}

// left is for Headway's own packages: the dispatcher plans with it.
type left struct {
	// Bucket is the bucket after the request, or a later state of it.
	Bucket bucket.Bucket
}

// outcome is the answer to a charge.
func outcome(a bucket.Answer, c Charge) Outcome {
	c.HoldEnd = a.HoldEnd()
	if c.Held == "" && (a.State == bucket.StateReserved || a.State == bucket.StateWaiting) {
		c.Held = a.State
	}
	return Outcome{
		State: a.State, Charge: c, Hold: a.Hold, RetryAt: a.RetryAt, At: a.At, left: left{Bucket: a.Bucket},
	}
}

// Started says whether the task starts.
func (o Outcome) Started() bool { return o.State == bucket.StateStarted }

// Wait is how long after the answer RetryAt is; zero for a task that starts.
func (o Outcome) Wait() time.Duration {
	return bucket.Answer{RetryAt: o.RetryAt, At: o.At}.Wait()
}

// FullAt is when the bucket is full, if nothing else happens.
func (o Outcome) FullAt() time.Time { return o.Bucket.FullAt() }

// Remaining is what a new ordinary task could take from each meter at the moment of the answer, in tokens: what is
// neither taken nor promised nor headroom. It is never negative, and zero during a block. A web handler shows it as
// X-RateLimit-Remaining, Wait as Retry-After, and FullAt as the reset. Where the limit has Shards, it is that of
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
