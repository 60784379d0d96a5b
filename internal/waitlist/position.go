package waitlist

import (
	"context"
	"time"
)

// Position is where a task stands, for people.
type Position struct {
	Arrived

	// List is that of Arrived.Bucket. It is zero but for Now if the task is in no waitlist.
	List List
	// Tag is the task's place in the order of its bucket, Tokens what it charges there, Since when it was promoted.
	Tag              float64
	Tokens           map[string]float64
	Urgent, Reserved bool
	Since            time.Time
	// Rank counts from 1, over all queues of the bucket; zero for a task that does not wait.
	Rank int
	// TokensAhead is what the tasks before this one charge, and the promoted ones. It is exact for at most 500 such tasks, and else their
	// number times the average of the whole list.
	TokensAhead map[string]float64
	Exact       bool
}

// Position returns where the task stands. It changes nothing and never reads the whole list.
func (w *Waitlist) Position(ctx context.Context, task Task) (Position, error) { panic("not written") }
