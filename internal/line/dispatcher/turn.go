package dispatcher

import (
	"encoding/json"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/line/waitlist"
	"github.com/headway-go/headway/reservations"
)

// Turn is what a delivered task holds and which waitlists stand before it. Bucket is that in whose waitlist the task
// is; empty for a new one. The zero Turn is that of a task that has not arrived.
type Turn struct {
	waitlist.Arrived

	// Charges are the charges of the task, each with its shard if its limit has Shards.
	Charges []reservations.Charge

	// At names the bucket of Arrived.Bucket, and held what the task holds in each bucket.
	At   reservations.BucketName
	held map[reservations.BucketName]string

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
func (t *Turn) Holds(c reservations.Charge) string { return t.held[c.Bucket()] }

// Behind says whether other tasks wait for the bucket of the charge, and the task is new there: it must not start
// before them. An urgent task in a limit with headroom is behind urgent ones alone.
func (t *Turn) Behind(c reservations.Charge) bool {
	return t.any(t.Before, c.Bucket()) && t.Holds(c) == ""
}

// others says whether tasks waited for the bucket when this one arrived.
func (t *Turn) others(at reservations.BucketName) bool { return t.any(t.Waiting, at) }

// any says whether a number of tasks, by charge, is that of some for the bucket.
func (t *Turn) any(tasks []int, at reservations.BucketName) bool {
	for i, n := range tasks {
		if n > 0 && t.Charges[i].Bucket() == at {
			return true
		}
	}
	return false
}

// fill reads what the waitlists hold of the task. A task goes back to the shard that it waited in.
func (t *Turn) fill(a waitlist.Arrived) {
	t.Arrived, t.held = a, map[reservations.BucketName]string{}
	t.At, _ = reservations.ParseBucket(a.Bucket) // zero where the task is in no waitlist
	for _, h := range a.Held {
		at, err := reservations.ParseBucket(h.Bucket)
		if err != nil {
			continue // no charge is for it
		}
		if t.held[at] = bucket.StateWaiting; h.Reserved {
			t.held[at] = bucket.StateReserved
		}
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
