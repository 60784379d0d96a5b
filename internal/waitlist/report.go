package waitlist

import (
	"context"
	"time"
)

// Answer is what a bucket answered.
type Answer struct {
	Bucket string
	// Generation, then Version, order the answers of a bucket. Neither is negative.
	Generation, Version int64
	// Store is the clock of the bucket's store at the moment of the call: that of the answer plus its age.
	Store time.Time
	// State is the bucket as the dispatcher reads it. The package does not read it.
	State []byte
	// Sooner says that waiting tasks may be able to start earlier than the dispatcher knows.
	Sooner bool
}

// Report stores the newest answer of each bucket, unless nobody waited there in the last ten minutes, and removes every trace of the tasks
// that began. An answer that is stored ends the failure of its bucket. With Sooner, the next look at the bucket is due now if
// tasks wait there, and the dispatcher is woken.
func (w *Waitlist) Report(ctx context.Context, answers []Answer, begun []Task) error {
	panic("not written")
}

// Fail notes that the bucket could not be asked. No look at it is due for the pause, unless an answer is reported or Recover is called.
// A shorter pause does not replace a longer one.
func (w *Waitlist) Fail(ctx context.Context, bucket string, pause time.Duration) error {
	panic("not written")
}

// Recover ends the failure of every bucket; the next look at each is due now.
func (w *Waitlist) Recover(ctx context.Context) error { panic("not written") }
