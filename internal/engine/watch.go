package engine

import (
	"context"
	"encoding/json"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/waitlist"
	"github.com/headway-go/headway/reservations"
)

// Waitlist is the waiting tasks of one bucket.
type Waitlist struct {
	// Bucket is the bucket's name; Limit, Shard and Key are the parts of it.
	Bucket string
	Limit  string
	Shard  int
	Key    string
	// Waiting is how many tasks wait, Promoted how many are on their way to ask the bucket, and Tokens what they take
	// together.
	Waiting, Promoted int
	Tokens            reservations.Tokens
	// FlowCount is how many named flows these tasks belong to. Flows are the ten flows with the most tasks, the
	// largest first.
	FlowCount int
	Flows     []FlowTasks
	// Now is the moment for which that is true. End is when the last of them is expected to start; zero where that is
	// not known. Failed is until when the bucket is left alone because it could not be asked; zero where it answers.
	// All are on Redis's clock.
	Now, End, Failed time.Time
}

// FlowTasks is how many tasks of a flow wait or are promoted.
type FlowTasks struct {
	Flow  string `json:"flow"`
	Tasks int    `json:"tasks"`
}

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
	w := Waitlist{
		Bucket: l.Bucket, Limit: at.Limit, Shard: at.Shard, Key: at.Key, Waiting: l.Waiting,
		Promoted: l.Promoted, Tokens: l.Tokens, FlowCount: l.FlowCount,
		Now: l.Now, Failed: l.FailedUntil,
	}
	for _, f := range l.Flows {
		w.Flows = append(w.Flows, FlowTasks{Flow: f.Name, Tasks: f.Tasks})
	}
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
