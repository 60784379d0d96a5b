package waitlist

import (
	"context"
	"time"
)

// Duty is a process that is dispatcher or wants to be.
type Duty struct {
	// ID is unique in the fleet.
	ID string
	// Rest is the longest time until the dispatcher looks again.
	Rest time.Duration
	// Lease is how much later than its next look the dispatcher is taken for dead. A bucket for which no Promote follows a look is due
	// again after it.
	Lease time.Duration
	// Heads is how many tasks at the head of a waitlist a look returns at most, Promoted how many promoted tasks.
	Heads, Promoted int
	// Retry is how long a promoted task has to begin, before it goes back to its place.
	Retry time.Duration
}

// Look is what the dispatcher sees.
type Look struct {
	// Now is the clock of Redis, as are all times of the package unless something else is said.
	Now time.Time
	// OnDuty says that the caller is the dispatcher. If it is not, Rest is when that may change, and Due is empty.
	OnDuty bool
	// TookOver says that the caller became the dispatcher with this look.
	TookOver bool
	// Rest is the time until the next look at a bucket that is not in Due, at most that of Duty.
	Rest time.Duration
	Due  []Due
}

// Due is a bucket to plan now.
type Due struct {
	Bucket string
	// Planned identifies this look at the bucket: Promote needs it.
	Planned int64
	// State is that of the bucket's last answer, empty if there is none.
	State []byte
	// Offset is the store's clock less Redis's, as of the last answer.
	Offset time.Duration
	// Failed says that the bucket could not be asked the last time.
	Failed bool
	// Promoted are the tasks that were promoted and have not begun, in the order of their promotion. PromotedCount counts all of them,
	// also those beyond Duty.Promoted.
	Promoted      []Waiting
	PromotedCount int
	// Heads are the first waiting tasks of the queues that are not paused, in order of their tags. More says that others wait behind them.
	Heads []Waiting
	More  bool
}

// Waiting is a task that waits or is promoted.
type Waiting struct {
	Task

	Tag              float64
	Tokens           map[string]float64
	Urgent, Reserved bool
	// Since is when the task was promoted; zero for one that waits.
	Since time.Time
}

// Look takes or renews the duty and returns the buckets that are due. Each must be passed to Promote, also if no task of it is promoted.
// Promoted tasks of a due bucket that did not begin within Duty.Retry are back in their list. Tasks of the paused queues are
// passed over.
func (w *Waitlist) Look(ctx context.Context, duty Duty, paused []string) (Look, error) {
	panic("not written")
}
