package waitlist

import (
	"context"
	"time"
)

// exactMost is the largest number of tasks ahead that are read one by one.
const exactMost = 500

// Position is the place of a task, for people.
type Position struct {
	Arrived

	// List is the waitlist of Arrived.Bucket. If the task is in no waitlist, only Now is set.
	List List
	// Tag is the task's place in the order of its bucket. Tokens is its charge there. Since is when it was promoted.
	Tag              float64
	Tokens           map[string]float64
	Urgent, Reserved bool
	Flow, Class      string
	Since            time.Time
	// Rank counts from 1, over all queues of the bucket, paused ones too. It is zero for a task that does not wait.
	// In a bucket with several classes it is an estimate unless Exact.
	Rank int
	// TokensAhead is the sum of the charges of all tasks before this one, promoted tasks too. It is exact for at most
	// 500 tasks ahead. For more it is their number times the average charge of the list.
	TokensAhead map[string]float64
	Exact       bool
}

// Position returns the place of the task. It changes nothing and never reads the whole list.
func (w *Waitlist) Position(ctx context.Context, task Task) (Position, error) {
	r := w.run(ctx, "look up the position of "+task.String(), w.scripts.position, task.String(), exactMost)
	p := Position{Arrived: r.arrived()}
	p.List = r.list(p.Bucket)
	if p.State != StateNew {
		p.Tag, p.Tokens, p.Urgent, p.Reserved = r.float(), r.tokens(), r.flag(), r.flag()
		p.Flow, p.Class, p.Since = r.text(), r.text(), r.moment()
		p.Rank, p.Exact, p.TokensAhead = r.count(), r.flag(), r.sums()
	}
	return p, r.err
}
