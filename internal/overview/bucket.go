package overview

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/engine"
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
	// when the last of them is expected to start; nil where no task waits, or that is not known.
	Waiting  int      `json:"waiting"`
	Promoted int      `json:"promoted"`
	EndIn    *float64 `json:"end_in_seconds,omitempty"`
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
	FlowCount int                `json:"flow_count,omitempty"`
	Flows     []engine.FlowTasks `json:"flows,omitempty"`
	// Override is what replaces the limit of the file.
	Override string   `json:"override,omitempty"`
	Meters   []Meter  `json:"meters"`
	Shards   []Bucket `json:"shards,omitempty"`
}

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
		Bucket: v.Bucket(), Limit: v.Limit, Key: v.Key, InUse: v.Found, Now: v.Now.UTC(), DoneIn: v.DoneIn.Seconds(),
		Blocked: v.Blocked.Seconds(), Refusing: string(v.Refusing), RefusingFor: v.RefusingFor.Seconds(),
		Forgotten: v.Forgotten.Seconds(),
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
		if m.MaxReserved != reservations.Unlimited {
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

// Stopped says in a sentence why only people can end that nothing starts in the bucket; empty if that is not so.
func (b Bucket) Stopped() string { return reservations.Reason(b.Refusing).Sentence() }

// faultMost bounds the text of a fault, in bytes: a document may have any text in it.
const faultMost = 300

// faulty returns a bucket that can't be read.
func faulty(limit, key string, err error) Bucket {
	text := err.Error()
	return Bucket{
		Bucket: bucket.Name(limit, key), Limit: limit, Key: key, InUse: true,
		Fault: strings.ToValidUTF8(text[:min(len(text), faultMost)], ""),
	}
}

// With returns a copy of the bucket with the waitlist of it, or of one of its shards, added.
func (b Bucket) With(l engine.Waitlist) Bucket {
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
	if !l.End.IsZero() {
		if end := max(0, l.End.Sub(l.Now)).Seconds(); b.EndIn == nil || end > *b.EndIn {
			b.EndIn = &end
		}
	}
	if !l.FailedUntil.IsZero() {
		b.FailedIn = max(b.FailedIn, l.FailedUntil.Sub(l.Now).Seconds())
	}
	return b
}

// flowsMost is how many flows of a bucket are shown.
const flowsMost = 10

// addFlows are the flows of shards together, the largest first.
func addFlows(flows, others []engine.FlowTasks) []engine.FlowTasks {
	tasks := map[string]int{}
	for _, f := range slices.Concat(flows, others) {
		tasks[f.Flow] += f.Tasks
	}
	all := make([]engine.FlowTasks, 0, len(tasks))
	for name, n := range tasks {
		all = append(all, engine.FlowTasks{Flow: name, Tasks: n})
	}
	slices.SortFunc(all, func(a, b engine.FlowTasks) int {
		return cmp.Or(cmp.Compare(b.Tasks, a.Tasks), cmp.Compare(a.Flow, b.Flow))
	})
	return all[:min(len(all), flowsMost)]
}
