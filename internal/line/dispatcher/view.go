package dispatcher

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/line/waitlist"
	"github.com/headway-go/headway/reservations"
)

// Waitlist is the waiting tasks of one bucket, as of Now.
type Waitlist struct {
	waitlist.List

	reservations.BucketName

	// End is when the last task is expected to start, on Redis's clock; zero where that is not known, as while tasks wait
	// of queues that are paused, or from which no live worker takes. Paused and Unserved are these queues, sorted by name.
	End              time.Time
	Paused, Unserved []string
}

// viewer reads the waitlists for people, and changes nothing.
type viewer struct{ *shared }

// FlowTasks is how many tasks of a flow wait or are promoted.
type FlowTasks = waitlist.Flow

// Waitlists returns the waitlists of one limit, or of all with the empty name, the longest first. It reads no more
// than most of them; more says that there are others. It changes nothing. The error is Redis's.
func (v *viewer) Waitlists(ctx context.Context, limit string, most int) (all []Waitlist, more bool, err error) {
	lists, more, err := v.list.Lists(ctx, limit, most)
	idle, failed := v.idle(ctx, lists...)
	for _, l := range lists {
		if w := describe(l, idle); (limit == "" || w.Limit == limit) && w.Waiting+w.Promoted > 0 {
			all = append(all, w)
		}
	}
	return all, more, cmp.Or(err, failed)
}

// Waitlist returns the waitlist of one bucket; Waiting is zero where no task waits. The error is Redis's.
func (v *viewer) Waitlist(ctx context.Context, bucket string) (Waitlist, error) {
	l, err := v.list.List(ctx, bucket)
	if err != nil {
		return Waitlist{}, err
	}
	idle, err := v.idle(ctx, l)
	return describe(l, idle), err
}

// Heads returns the promoted tasks of a bucket, then the waiting ones in the order in which they start: at most that
// many of each. More is true if others wait. It changes nothing. The error is Redis's.
func (v *viewer) Heads(ctx context.Context, bucket string, most int) (first []waitlist.Head, more bool, err error) {
	return v.list.Heads(ctx, bucket, most)
}

// idle are the queues from which nothing is taken.
type idle struct{ paused, unserved map[string]bool }

// idle returns from which queues of the waitlists nothing is taken.
func (v *viewer) idle(ctx context.Context, lists ...waitlist.List) (none idle, err error) {
	queues := map[string]bool{}
	for _, l := range lists {
		for queue := range l.Queues {
			queues[queue] = true
		}
	}
	delete(queues, waitlist.QueueCallers) // callers wait in their own processes
	if len(queues) == 0 {
		return none, nil
	}
	names := slices.Collect(maps.Keys(queues))
	if none.paused, err = v.queues.Paused(ctx, names); err == nil {
		none.unserved, _, err = v.queues.Unserved(names)
	}
	return none, err
}

func describe(l waitlist.List, none idle) Waitlist {
	w := Waitlist{List: l}
	w.BucketName, _ = reservations.ParseBucket(l.Bucket) // a bad one is for people
	for queue, tasks := range l.Queues {
		if tasks > 0 && none.paused[queue] {
			w.Paused = append(w.Paused, queue)
		}
		if tasks > 0 && none.unserved[queue] {
			w.Unserved = append(w.Unserved, queue)
		}
	}
	slices.Sort(w.Paused)
	slices.Sort(w.Unserved)
	if w.Waiting > 0 && w.Paused == nil && w.Unserved == nil {
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
func (v *viewer) OnDuty(ctx context.Context) (Duty, error) {
	id, until, now, err := v.list.OnDuty(ctx)
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
