package waitlist

import (
	"context"
	"time"

	"github.com/headway-go/headway/internal/lua"
)

// Answer is the answer of a bucket.
type Answer struct {
	Bucket string
	// Generation, then Version, order the answers of a bucket. Neither is negative, or above 2^53.
	Generation, Version int64
	// Store is the clock of the bucket's store at the moment of the call: the time of the answer plus its age.
	Store time.Time
	// State is the encoded bucket, for the dispatcher. The package does not parse it.
	State []byte
	// Sooner is true if waiting tasks may be able to start earlier than the dispatcher has planned.
	Sooner bool
	// Joins is true if a task is about to join.
	Joins bool
}

// Report stores the newest answer of each bucket in which a task waited in the last minutes. With Sooner or Joins it
// stores the answer in any case: a task that joins a moment later must not wait by an older answer. A stored answer
// ends the failure of its bucket. With Sooner, a look at the bucket is due if tasks wait there, and Report wakes the
// dispatcher. Report removes every trace of the tasks that began.
func (w *Waitlist) Report(ctx context.Context, r Reported) error {
	return w.run(ctx, "report to the waitlists", w.scripts.report, r.args()...).err
}

// Reported is what Report stores.
type Reported struct {
	Answers []Answer
	Begun   []Task
}

// args are the arguments of reported in the scripts.
func (r Reported) args() []any {
	args := []any{len(r.Answers)}
	for _, a := range r.Answers {
		args = append(args, a.Bucket, a.Generation, a.Version, a.Store.UnixMicro(), a.State, a.Sooner, a.Joins)
	}
	return lua.Args(r.Begun, append(args, len(r.Begun))...)
}

// Failure is the kind of a failed request to a bucket, and the bounds of the pause after it.
type Failure struct {
	// Away is true if the store is down, and false if the bucket fails alone.
	Away bool
	// The pause is half as long as the failure has lasted, at least Shortest and at most Longest, times 1+Random.
	Shortest, Longest time.Duration
	Random            float64
}

// Fail stores that a request to the bucket failed. No look at the bucket is due for a pause, unless Report stores an
// answer, or Recover is called after an outage of the store. A shorter pause does not replace a longer one. Fail
// returns the pause in force, and whether the failure began.
func (w *Waitlist) Fail(ctx context.Context, bucket string, f Failure) (pause time.Duration, began bool, err error) {
	r := w.run(ctx, "store the failure of a bucket", w.scripts.fail,
		bucket, f.Shortest.Microseconds(), f.Longest.Microseconds(), f.Random, f.Away)
	pause, began = r.duration(), r.flag()
	return pause, began, r.err
}

// Recover ends the failure of every bucket whose store was down. A look at each of these buckets in which tasks wait
// is due.
func (w *Waitlist) Recover(ctx context.Context) error {
	for {
		r := w.run(ctx, "end the failures of buckets", w.scripts.recover, together)
		if ended := r.count(); ended < together || r.err != nil {
			return r.err
		}
	}
}
