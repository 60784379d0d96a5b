package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/headway-go/headway/internal/waitlist"
	"github.com/headway-go/headway/reservations"
)

// Turn is what a delivered task holds and which waitlists stand before it. Bucket is that in whose waitlist the task
// is; empty for a new one. The zero Turn is that of a task that has not arrived.
type Turn struct {
	waitlist.Arrived

	// Charges are the charges of the task, each with its shard if its limit has Shards.
	Charges []reservations.Charge

	info WaitInfo // of Arrived.Info
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
	// WhyLimit says that the bucket has no room.
	WhyLimit = "limit"
	// WhyStore says that the bucket could not be asked.
	WhyStore = "store"
	// WhyProvider says that the provider refused a call.
	WhyProvider = "provider"
	// WhyWorker says that a worker lacks something.
	WhyWorker = "worker"
)

// Holds is what the task holds in the bucket of the charge; empty where it is new there.
func (t *Turn) Holds(c reservations.Charge) reservations.State {
	for _, h := range t.Held {
		switch {
		case h.Bucket != c.Bucket():
		case h.Reserved:
			return reservations.StateReserved
		default:
			return reservations.StateWaiting
		}
	}
	return ""
}

// Behind says whether other tasks wait for the bucket of the charge, and the task is new there: it must not start
// before them.
func (t *Turn) Behind(c reservations.Charge) bool { return t.others(c.Bucket()) && t.Holds(c) == "" }

// others says whether tasks waited for the bucket when this one arrived.
func (t *Turn) others(bucket string) bool {
	for i, n := range t.Waiting {
		if n > 0 && t.Charges[i].Bucket() == bucket {
			return true
		}
	}
	return false
}

// Claim sets what the task holds in the buckets of its claims, and where it has to wait behind other tasks: an urgent
// one in a limit with headroom nowhere.
func (s *Engine) Claim(ctx context.Context, turn Turn, claims reservations.Claims) {
	for i, c := range claims {
		c.Charge = turn.Charges[i]
		c.Charge.Held, c.Behind = turn.Holds(c.Charge), turn.Behind(c.Charge)
		if c.Behind && c.Charge.Urgent {
			limit, err := s.limiter.LimitFor(ctx, c.Charge)
			c.Behind = err != nil || !limit.Rules().HasHeadroom()
		}
	}
}

// Arrive returns what a delivered task holds. Call it for each delivery of a task with charges, before any bucket
// is asked. On an error of Redis the Turn is that of a new task with no waitlist: to go on with it costs the task its
// place, and never a limit.
func (s *Engine) Arrive(ctx context.Context, t waitlist.Task, charges []reservations.Charge) (Turn, error) {
	var turn Turn
	arrival := waitlist.Arrival{Task: t}
	for _, c := range charges {
		if s.limiter != nil {
			c = s.limiter.Choose(c)
		}
		turn.Charges = append(turn.Charges, c)
	}
	for _, c := range turn.Charges {
		arrival.Buckets = append(arrival.Buckets, c.Bucket())
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
	t.Arrived = a
	for _, h := range a.Held {
		at := reservations.ParseBucket(h.Bucket)
		for i, c := range t.Charges {
			if c.Limit == at.Limit && c.Key == at.Key {
				t.Charges[i].Shard = at.Shard
			}
		}
	}
	_ = json.Unmarshal(a.Info, &t.info) // what can't be read is for people alone
}

// Left is how long a task still waits at least that was delivered while it waits. Asynq's net, an operator, or a worker
// whose clock is ahead has delivered it.
func (t *Turn) Left() time.Duration { return t.info.left(time.Now()) }

// Since is when the task began to wait, by a worker's clock; zero for a task that does not wait.
func (t *Turn) Since() time.Time {
	if t.info.Since == 0 {
		return time.Time{}
	}
	return time.UnixMilli(t.info.Since)
}
