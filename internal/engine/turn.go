package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/headway-go/headway/internal/waitlist"
	"github.com/headway-go/headway/reservations"
)

// Status is what a delivered task is to the waitlists.
type Status string

const (
	// StatusNew means that the task waits nowhere.
	StatusNew Status = "new"
	// StatusWaiting means that the task waits and was not promoted: it goes back without asking its bucket, see
	// Engine.Return.
	StatusWaiting Status = "waiting"
	// StatusPromoted means that the dispatcher sent the task on its way: it asks its bucket.
	StatusPromoted Status = "promoted"
)

// Turn is what a delivered task holds and which waitlists stand before it. The zero Turn is that of a new task with
// no waitlist.
type Turn struct {
	Status Status
	// Bucket is the bucket in whose waitlist the task is; empty for a new one.
	Bucket string
	// Charges are the charges of the task, each with its shard if its limit has Shards.
	Charges []reservations.Charge

	held   map[string]reservations.State // by bucket
	behind map[string]int                // how many tasks wait, by bucket
	info   WaitInfo
	at     time.Time // of the delivery, by Redis's clock
}

// WaitInfo is what the waitlist stores of a waiting task for people, and for its net. It is short: a long one
// doubles the memory that Redis takes for a waiting task.
type WaitInfo struct {
	// Since is when the task began to wait, Until when it was expected to start: milliseconds since 1970 by a worker's
	// clock.
	Since int64 `json:"s"`
	Until int64 `json:"u,omitempty"`
	// Why is empty for a limit.
	Why string `json:"w,omitempty"`
}

func (i WaitInfo) encode() []byte {
	text, _ := json.Marshal(i) // numbers and a text
	return text
}

// left is how long a task that was delivered too early waits at least: until its time, or where that has passed, as
// long again as it has waited.
func (i WaitInfo) left(now time.Time) time.Duration {
	return max(time.UnixMilli(i.Until).Sub(now), now.Sub(time.UnixMilli(i.Since)), 0)
}

const (
	// WhyStore says that the bucket could not be asked.
	WhyStore = "store"
	// WhyProvider says that the provider refused a call.
	WhyProvider = "provider"
)

// Held is what the task holds in the bucket of the charge; empty where it is new there.
func (t *Turn) Held(c reservations.Charge) reservations.State { return t.held[c.Bucket()] }

// Behind says whether other tasks wait for the bucket of the charge, and the task is new there: it must not start
// before them.
func (t *Turn) Behind(c reservations.Charge) bool {
	return t.behind[c.Bucket()] > 0 && t.Held(c) == ""
}

// Claim sets what the task holds in the buckets of its claims, and where it has to wait behind other tasks: an urgent
// one in a limit with headroom nowhere.
func (s *Engine) Claim(ctx context.Context, turn Turn, claims []*reservations.Claim) {
	for i, c := range claims {
		c.Charge = turn.Charges[i]
		c.Charge.Held, c.Behind = turn.Held(c.Charge), turn.Behind(c.Charge)
		if c.Behind && c.Charge.Urgent {
			limit, err := s.limiter.LimitFor(ctx, c.Charge)
			c.Behind = err != nil || !limit.Rules().HasHeadroom()
		}
	}
}

// Charges are the charges of the claims, with the shards that answered, and leases.
func Charges(claims []*reservations.Claim) []reservations.Charge {
	all := make([]reservations.Charge, len(claims))
	for i, c := range claims {
		all[i] = c.Charge
	}
	return all
}

// Arrive returns what a delivered task holds. Call it for each delivery of a task with charges, before any bucket
// is asked: if other tasks wait, a new task gets its place behind them by it, for a minute. On an error of Redis
// the Turn is that of a new task with no waitlist: to go on with it costs the task its place, and never a limit.
func (s *Engine) Arrive(ctx context.Context, t waitlist.Task, charges []reservations.Charge) (Turn, error) {
	turn := Turn{Status: StatusNew}
	arrival := waitlist.Arrival{Task: t}
	for _, c := range charges {
		if s.limiter != nil {
			c = s.limiter.Choose(c)
		}
		turn.Charges = append(turn.Charges, c)
	}
	for _, c := range turn.Charges {
		arrival.Wants = append(arrival.Wants, s.entry(ctx, t, turn, c))
	}
	all, err := s.arrivals.Do(ctx, struct{}{}, arrival)
	if err != nil {
		return turn, fmt.Errorf("look for %s in the waitlists: %w", t, err)
	}
	turn.fill(all[0])
	return turn, nil
}

// fill reads what the waitlists hold of the task. A task goes back to the shard that it waited in.
func (t *Turn) fill(a waitlist.Arrived) {
	t.Bucket, t.at = a.Bucket, a.At
	switch a.State {
	case waitlist.StateWaiting:
		t.Status = StatusWaiting
	case waitlist.StatePromoted:
		t.Status = StatusPromoted
	case waitlist.StateNew:
	}
	t.held, t.behind = map[string]reservations.State{}, map[string]int{}
	for i, n := range a.Waiting {
		t.behind[t.Charges[i].Bucket()] = n
	}
	for _, h := range a.Held {
		at := reservations.ParseBucket(h.Bucket)
		t.held[h.Bucket] = reservations.StateWaiting
		if h.Reserved {
			t.held[h.Bucket] = reservations.StateReserved
		}
		for i, c := range t.Charges {
			if c.Limit == at.Limit && c.Key == at.Key {
				t.Charges[i].Shard = at.Shard
			}
		}
	}
	_ = json.Unmarshal(a.Info, &t.info) // what can't be read is for people alone
}

// Since is when the task began to wait, by a worker's clock; zero for a task that does not wait.
func (t *Turn) Since() time.Time {
	if t.info.Since == 0 {
		return time.Time{}
	}
	return time.UnixMilli(t.info.Since)
}
