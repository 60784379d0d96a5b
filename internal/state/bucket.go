package state

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/line/dispatcher"
	"github.com/headway-go/headway/reservations"
)

// Bucket is a bucket with its waitlist. The keys of its JSON are a promise to scripts; times are seconds from now.
type Bucket struct {
	Bucket string    `json:"bucket"`
	Limit  string    `json:"limit"`
	Key    string    `json:"key"`
	InUse  bool      `json:"in_use"`
	Now    time.Time `json:"now"`
	// Waiting is how many tasks are in its waitlist, Promoted how many are on their way to ask the bucket. EndIn is
	// when the last of them is expected to start; nil where no task waits, or that is not known. It is not known while
	// a quota or a key has stopped the limit, or tasks of some queues can't start. These queues are Paused, or Unserved:
	// no live worker takes from them.
	Waiting  int      `json:"waiting"`
	Promoted int      `json:"promoted"`
	EndIn    *float64 `json:"end_in_seconds,omitempty"`
	Paused   []string `json:"paused_queues,omitempty"`
	Unserved []string `json:"unserved_queues,omitempty"`
	// DoneIn is when all reserved tokens will have come back.
	DoneIn  float64 `json:"done_in_seconds"`
	Blocked float64 `json:"blocked_seconds"`
	// Refusing says why the provider refused the last call: limit, quota or key. RefusingFor is for how long it has
	// refused calls. Both are left out after a good answer.
	Refusing    string  `json:"refusing,omitempty"`
	RefusingFor float64 `json:"refusing_seconds,omitempty"`
	// Forgotten is for how long nothing starts because calls in flight may run that the store has forgotten.
	Forgotten float64 `json:"forgotten_seconds,omitempty"`
	// FailedIn is for how long the bucket is left alone because it could not be asked.
	FailedIn float64 `json:"failed_seconds,omitempty"`
	// Fault is why the bucket can't be read, while others can. It has no meters then.
	Fault string `json:"fault,omitempty"`
	// FlowCount is how many named flows these tasks belong to, at least where the bucket has shards; Flows are the ten
	// that have most of them.
	FlowCount int    `json:"flow_count,omitempty"`
	Flows     []Flow `json:"flows,omitempty"`
	// Override is what replaces the limit of the file.
	Override string   `json:"override,omitempty"`
	Meters   []Meter  `json:"meters"`
	Shards   []Bucket `json:"shards,omitempty"`

	// Queues is how many tasks of each queue wait, Held how many of each paused one.
	Queues, Held map[string]int `json:"-"`
	// View is the bucket as the limiter has it. That of a bucket that can't be read has its
	// names alone.
	View reservations.View `json:"-"`
}

// Flow is how many tasks of a flow wait or are promoted. Name is the name that people know it by; empty for the same.
type Flow struct {
	dispatcher.FlowTasks

	Name string `json:"name,omitempty"`
}

// String is what people see of the flow.
func (f Flow) String() string { return cmp.Or(f.Name, f.Flow) }

// Meter is one meter of a bucket, in tokens.
type Meter struct {
	Meter string  `json:"meter"`
	Kind  string  `json:"kind"`
	Rate  float64 `json:"rate"`
	// Least and Most bound the rate of an adaptive meter, whose Rate is the present one. Nil for other meters.
	Least    *float64 `json:"least_rate,omitempty"`
	Most     *float64 `json:"most_rate,omitempty"`
	Period   float64  `json:"period_seconds"`
	Capacity float64  `json:"capacity"`
	// MaxReserved is nil where it is unlimited.
	MaxReserved *float64 `json:"max_reserved"`
	Level       float64  `json:"level"`
	Debt        float64  `json:"debt"`
	// Promised is what is reserved for waiting tasks. Ahead is how far the reserved balance is in deficit, at most
	// MaxReserved, and AheadIn when that will have come back. The reserved balance of a meter that is not scarce lacks
	// more than what is promised: also the tokens that a full bucket discards until the waiting tasks start.
	Promised float64 `json:"promised"`
	Ahead    float64 `json:"ahead"`
	AheadIn  float64 `json:"ahead_seconds"`
	// Waiting is what the waiting and promoted tasks take together.
	Waiting float64 `json:"waiting"`

	// View is the meter as the bucket has it.
	View reservations.MeterView `json:"-"`
}

// NewBucket returns the bucket of a view, without its waitlist.
func NewBucket(v reservations.View) Bucket {
	b := Bucket{
		Bucket: reservations.BucketName{Limit: v.Limit, Key: v.Key, Shard: v.Shard}.String(),
		Limit:  v.Limit, Key: v.Key, InUse: v.Found, Now: v.Now.UTC(), DoneIn: v.DoneIn.Seconds(),
		Blocked: v.Blocked.Seconds(), Refusing: string(v.Refusing), RefusingFor: v.RefusingFor.Seconds(),
		Forgotten: v.Forgotten.Seconds(), View: v,
	}
	for _, m := range v.Meters {
		s := Meter{
			Meter: m.Name, Kind: string(m.Kind), Rate: m.Current, Period: m.Period.Seconds(), Capacity: m.Cap(),
			Level: m.Level, Debt: m.Debt, Ahead: m.Ahead, AheadIn: m.AheadIn.Seconds(), View: m,
		}
		if m.Adaptive.Max > 0 {
			s.Least, s.Most = &m.Rate, &m.Adaptive.Max
		}
		if s.Kind == "" {
			s.Kind = string(reservations.KindBucket)
		}
		if m.MaxReserved != 0 {
			most := max(0, m.MaxReserved)
			s.MaxReserved = &most
		}
		b.Meters = append(b.Meters, s)
	}
	for _, shard := range v.Shards {
		b.Shards = append(b.Shards, NewBucket(shard))
	}
	return b
}

// faultMost bounds the text of a fault, in bytes: a document may have any text in it.
const faultMost = 300

// faulty returns a bucket that can't be read.
func faulty(limit, key string, err error) Bucket {
	text := err.Error()
	return Bucket{
		Bucket: bucket.Name(limit, key), Limit: limit, Key: key, InUse: true,
		Fault: strings.ToValidUTF8(text[:min(len(text), faultMost)], ""), View: reservations.View{Limit: limit, Key: key},
	}
}

// With returns a copy of the bucket with the waitlist of it, or of one of its shards, added.
func (b Bucket) With(l dispatcher.Waitlist) Bucket {
	b.Meters, b.Shards = slices.Clone(b.Meters), slices.Clone(b.Shards)
	for i := range b.Shards {
		if b.Shards[i].Bucket == l.Bucket {
			b.Shards[i] = b.Shards[i].With(l)
		}
	}
	b.Waiting += l.Waiting
	b.Promoted += l.Promoted
	for i := range b.Meters {
		m := &b.Meters[i]
		m.Waiting += l.Tokens[m.Meter]
		m.Promised = min(m.View.Promised, m.Waiting)
	}
	b.FlowCount = max(b.FlowCount, l.FlowCount)
	b.Flows = addFlows(b.Flows, l.Flows)
	queues := maps.Clone(b.Queues)
	for queue, tasks := range l.Queues {
		if queues == nil {
			queues = map[string]int{}
		}
		queues[queue] += tasks
	}
	b.Queues = queues
	held := maps.Clone(b.Held)
	for _, queue := range l.Paused {
		if held == nil {
			held = map[string]int{}
		}
		held[queue] += l.Queues[queue]
	}
	b.Held = held
	b.Paused = slices.Sorted(maps.Keys(held))
	b.Unserved = slices.Compact(slices.Sorted(slices.Values(slices.Concat(b.Unserved, l.Unserved))))
	if b.Paused != nil || b.Unserved != nil || bucket.Reason(b.Refusing).Stops() {
		b.EndIn = nil
	} else if !l.End.IsZero() {
		if end := max(0, l.End.Sub(l.Now)).Seconds(); b.EndIn == nil || end > *b.EndIn {
			b.EndIn = &end
		}
	}
	if !l.FailedUntil.IsZero() {
		b.FailedIn = max(b.FailedIn, l.FailedUntil.Sub(l.Now).Seconds(), leastFailed)
	}
	return b
}

// leastFailed is how long a bucket that failed is left alone at least, in seconds: it may be asked just now.
const leastFailed = 0.001

// flowsMost is how many flows of a bucket are shown.
const flowsMost = 10

// addFlows are the flows of shards together, the largest first.
func addFlows(flows []Flow, others []dispatcher.FlowTasks) []Flow {
	tasks := map[string]int{}
	for _, f := range flows {
		tasks[f.Flow] += f.Tasks
	}
	for _, f := range others {
		tasks[f.Flow] += f.Tasks
	}
	all := make([]Flow, 0, len(tasks))
	for name, n := range tasks {
		all = append(all, Flow{FlowTasks: dispatcher.FlowTasks{Flow: name, Tasks: n}})
	}
	slices.SortFunc(all, func(a, b Flow) int {
		return cmp.Or(cmp.Compare(b.Tasks, a.Tasks), cmp.Compare(a.Flow, b.Flow))
	})
	return all[:min(len(all), flowsMost)]
}
