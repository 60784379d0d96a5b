package reservations

import "time"

// State is the answer of a bucket, in one word.
type State string

const (
	// StateStarted means that the task starts when Outcome.Hold is over.
	StateStarted State = "started"
	// StateReserved means that the task waits, and that the bucket has promised its tokens.
	StateReserved State = "reserved"
	// StateWaiting means that the task waits without a new promise: max_reserved or max_wait leaves no room for one, or
	// the task was promoted and came too early.
	StateWaiting State = "waiting"
	// StateRefused means that an Allow did not start, or that a lease is not there any more. Nothing was changed.
	StateRefused State = "refused"
	// StateSettled is the answer to a request that starts and promises nothing: a settlement, a release, a block, a
	// sync.
	StateSettled State = "settled"
)

// Outcome is the answer to a Request.
type Outcome struct {
	State State
	// Hold is how long a started task has to wait in its worker, at most the constant Hold.
	Hold time.Duration
	// RetryAt is when the task could start if nothing else asks meanwhile, and for a block when the block in force
	// ends. Zero where the task starts.
	RetryAt time.Time
	// At is the moment of the answer on the store's clock, as RetryAt is.
	At time.Time
	// Shard is the shard that answered, from 1, where the limit has Shards.
	Shard int
	// Lease is what a start has of a meter of calls in flight; zero where the limit has no such meter.
	Lease Lease
	// Bucket is the bucket after the request, or a later state of it. The dispatcher plans with it.
	Bucket Bucket
}

// Started says whether the task starts.
func (o Outcome) Started() bool { return o.State == StateStarted }

// Wait is how long after the answer RetryAt is; zero for a task that starts.
func (o Outcome) Wait() time.Duration {
	if o.RetryAt.IsZero() {
		return 0
	}
	return max(0, o.RetryAt.Sub(o.At))
}

// Reservation is what the task holds in the bucket while it waits.
func (o Outcome) Reservation() Reservation {
	return Reservation{Shard: o.Shard, Promised: o.State == StateReserved}
}

// Reservation is what a waiting task holds in one bucket. If it is lost, new tasks wait for the promised tokens once
// too often; the limit is not affected.
type Reservation struct {
	// Shard is the shard of the bucket, from 1, where the limit has Shards.
	Shard int `json:"shard,omitempty"`
	// Promised says that the reserved balance is charged with the task's tokens.
	Promised bool `json:"promised,omitempty"`
}
