package engine

import (
	"context"
	"encoding/json"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/waitlist"
	"github.com/headway-go/headway/reservations"
)

// Waitlist is the waiting tasks of one bucket, as of Now.
type Waitlist struct {
	waitlist.List

	// Limit, Shard and Key are the parts of the bucket's name.
	Limit string
	Shard int
	Key   string
	// End is when the last task is expected to start, on Redis's clock; zero where that is not known.
	End time.Time
}

// FlowTasks is how many tasks of a flow wait or are promoted.
type FlowTasks = waitlist.Flow

// Waitlists returns the waitlists of one limit, or of all with the empty name, the longest first. It reads no more
// than most of them; more says that there are others. It changes nothing. The error is Redis's.
func (e *Engine) Waitlists(ctx context.Context, limit string, most int) (all []Waitlist, more bool, err error) {
	lists, more, err := e.list.Lists(ctx, limit, most)
	for _, l := range lists {
		if w := describe(l); (limit == "" || w.Limit == limit) && w.Waiting+w.Promoted > 0 {
			all = append(all, w)
		}
	}
	return all, more, err
}

// Waitlist returns the waitlist of one bucket; Waiting is zero where no task waits. The error is Redis's.
func (e *Engine) Waitlist(ctx context.Context, bucket string) (Waitlist, error) {
	l, err := e.list.List(ctx, bucket)
	return describe(l), err
}

func describe(l waitlist.List) Waitlist {
	at := reservations.ParseBucket(l.Bucket)
	w := Waitlist{List: l, Limit: at.Limit, Shard: at.Shard, Key: at.Key}
	if w.Waiting > 0 {
		w.End, _ = Expect(l, l.Tokens)
	}
	return w
}

// Duty is the process of the fleet that is on duty as dispatcher.
type Duty struct {
	// Dispatcher is the ID of the process; empty if none is on duty.
	Dispatcher string
	// Until is when the duty ends, unless the dispatcher looks again. Now is the moment for which this is true. Both
	// are on Redis's clock.
	Until, Now time.Time
}

// OnDuty returns the process that is on duty as dispatcher. It changes nothing. The error is Redis's.
func (e *Engine) OnDuty(ctx context.Context) (Duty, error) {
	id, until, now, err := e.list.OnDuty(ctx)
	return Duty{Dispatcher: id, Until: until, Now: now}, err
}

// Expect is when the bucket of a waitlist has the tokens, on Redis's clock: zero where calls in flight have to end
// first. It is not known without an answer of the bucket.
func Expect(l waitlist.List, tokens ...map[string]float64) (at time.Time, known bool) {
	var b bucket.Bucket
	if json.Unmarshal(l.State, &b) != nil {
		return time.Time{}, false
	}
	all := reservations.Tokens{}
	for _, some := range tokens {
		for meter, n := range some {
			all[meter] += n
		}
	}
	if at = b.Expect(l.Now.Add(l.Offset), all); !at.IsZero() {
		at = at.Add(-l.Offset)
	}
	return at, true
}
