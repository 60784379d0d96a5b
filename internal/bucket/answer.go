package bucket

import "time"

// State is the answer of a bucket, in one word.
type State string

// The states, which package reservations explains.
const (
	StateStarted  State = "started"
	StateReserved State = "reserved"
	StateWaiting  State = "waiting"
	StateRefused  State = "refused"
	StateSettled  State = "settled"
)

// Answer is the answer of a bucket to a Request. Its BSON form is what a store passes on to another process.
type Answer struct {
	State State `bson:"s"`
	// Hold is how long a started task has to wait in its worker, at most the constant Hold.
	Hold time.Duration `bson:"h,omitempty"`
	// RetryAt is when the task could start if nothing else asks meanwhile, and for a block when the block in force
	// ends. Zero where the task starts.
	RetryAt time.Time `bson:"r,omitempty"`
	// At is the moment of the answer on the store's clock, as RetryAt is.
	At time.Time `bson:"a"`
	// Bucket is the bucket after the request, or a later state of it.
	Bucket Bucket `bson:"-"`
}

// Started says whether the task starts.
func (a Answer) Started() bool { return a.State == StateStarted }

// Wait is how long after the answer RetryAt is; zero for a task that starts.
func (a Answer) Wait() time.Duration {
	if a.RetryAt.IsZero() {
		return 0
	}
	return max(0, a.RetryAt.Sub(a.At))
}
