package headway

import (
	"context"
	"time"

	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/internal/state"
	"github.com/headway-go/headway/reservations"
)

// Limit is a limit as it is now.
type Limit struct {
	Name string
	// Buckets are the bucket that all keys share, then the buckets of keys for which tasks wait. More is true if tasks
	// wait for further buckets.
	Buckets []Bucket
	More    bool
}

// Bucket is the state of one limit for one key, with the tasks that wait for it.
type Bucket struct {
	reservations.View
	// Waiting is how many tasks are in the waitlist, Promoted how many are on their way to ask the bucket.
	Waiting, Promoted int
	// End is when the last of them is expected to start. Zero where no task waits, or that is not known.
	End time.Time
	// Fault is why the bucket can't be read. Empty where it can.
	Fault string
}

// Limits returns the limits of the client with their buckets and waitlists. The error is that of Redis or of the store.
func (c *Client) Limits(ctx context.Context) ([]Limit, error) {
	read, err := state.Reader{Limiter: c.limiter, Scheduler: c.Scheduler()}.Read(ctx, "")
	if err != nil {
		return nil, err
	}
	var all []Limit
	for _, l := range read.Limits {
		limit := Limit{Name: l.Limit, More: l.More}
		for _, b := range l.Buckets {
			limit.Buckets = append(limit.Buckets, stateOf(b))
		}
		all = append(all, limit)
	}
	return all, nil
}

func stateOf(b state.Bucket) Bucket {
	state := Bucket{View: b.View, Waiting: b.Waiting, Promoted: b.Promoted, Fault: b.Fault}
	if b.EndIn != nil {
		state.End = b.Now.Add(time.Duration(*b.EndIn * float64(time.Second)))
	}
	return state
}

// Dispatcher returns the ID of the process that is on duty as dispatcher of the fleet. While it is empty, no waiting
// task starts.
func (c *Client) Dispatcher(ctx context.Context) (string, error) {
	duty, err := inside.Of(c.Scheduler()).OnDuty(ctx)
	return duty.Dispatcher, err
}
