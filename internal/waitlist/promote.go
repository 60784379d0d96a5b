package waitlist

import (
	"context"
	"time"
)

// Plan is what the dispatcher decided for a bucket.
type Plan struct {
	Bucket string
	// Planned is that of Due.
	Planned int64
	Promote []Task
	// Next is the time until the next look at the bucket. Zero means that no task waits; if one does, the look is due after Duty.Retry.
	Next time.Duration
}

// Promote moves tasks that still wait in their bucket from the list to the promoted ones, and returns these in order. It plans the
// next look at each bucket, but keeps the one that a Join, Report, Leave or Fail has planned since the look. If the process with
// this ID is no longer on duty, nothing changes.
func (w *Waitlist) Promote(ctx context.Context, id string, plans []Plan) (promoted []Task, onDuty bool, err error) {
	panic("not written")
}

// AllPromoted returns every task that was promoted and has not begun, in the order of promotion: the last dispatcher may have died
// before it woke them.
func (w *Waitlist) AllPromoted(ctx context.Context) ([]Task, error) { panic("not written") }

// Resign ends the duty of the process with this ID, and wakes the others.
func (w *Waitlist) Resign(ctx context.Context, id string) error { panic("not written") }
