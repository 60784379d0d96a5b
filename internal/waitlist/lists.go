package waitlist

import (
	"context"
	"time"
)

// List is the waitlist of one bucket, for people.
type List struct {
	Bucket            string
	Waiting, Promoted int
	// Tokens is what waiting and promoted tasks charge together, by meter.
	Tokens map[string]float64
	// State, Generation and Version are those of the bucket's last answer; State is empty if there is none.
	State               []byte
	Generation, Version int64
	// Offset is the store's clock less Redis's, as of that answer.
	Offset time.Duration
	// Now is when all of this is true.
	Now time.Time
	// Next is when the next look is due; zero if none is planned.
	Next time.Time
	// FailedUntil is set if the bucket could not be asked: no look is due until then.
	FailedUntil time.Time
}

// Lists returns the waitlists of the buckets whose names begin with the prefix, the longest first. It reads at most so many, and more says
// that there are others.
func (w *Waitlist) Lists(ctx context.Context, prefix string, most int) (lists []List, more bool, err error) {
	panic("not written")
}

// List returns the waitlist of one bucket, also an empty one.
func (w *Waitlist) List(ctx context.Context, bucket string) (List, error) { panic("not written") }
