package waitlist

import (
	"context"
	"time"
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
	return w.run(ctx, "report to the waitlists", w.scripts.report, r.args(args{}), nil)
}

// Reported is what Report stores.
type Reported struct {
	Answers []Answer
	Begun   []Task
}

// args adds the arguments of reported in the scripts.
func (r Reported) args(a args) args {
	type answer struct {
		Bucket     string `json:"bucket"`
		Generation micros `json:"generation"`
		Version    micros `json:"version"`
		Store      micros `json:"store"`
		State      string `json:"state"`
		Sooner     bool   `json:"sooner"`
		Joins      bool   `json:"joins"`
	}
	answers := make([]answer, len(r.Answers))
	for i, one := range r.Answers {
		answers[i] = answer{
			Bucket: one.Bucket, Generation: micros(one.Generation), Version: micros(one.Version),
			Store: micros(one.Store.UnixMicro()), State: string(one.State), Sooner: one.Sooner, Joins: one.Joins,
		}
	}
	a["answers"], a["begun"] = answers, names(r.Begun)
	return a
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
	var answer struct {
		Pause micros
		Began bool
	}
	err = w.run(ctx, "store the failure of a bucket", w.scripts.fail, args{
		"bucket": bucket, "shortest": f.Shortest.Microseconds(), "longest": f.Longest.Microseconds(), "random": f.Random,
		"away": f.Away,
	}, &answer)
	return answer.Pause.duration(), answer.Began, err
}

// Recover ends the failure of every bucket whose store was down. A look at each of these buckets in which tasks wait
// is due.
func (w *Waitlist) Recover(ctx context.Context) error {
	for {
		var answer struct{ Ended int }
		err := w.run(ctx, "end the failures of buckets", w.scripts.recover, args{"most": together}, &answer)
		if answer.Ended < together || err != nil {
			return err
		}
	}
}
