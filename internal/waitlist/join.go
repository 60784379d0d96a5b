package waitlist

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"
)

const (
	// costLeast keeps tasks of one flow in order: two tags of a flow differ, while the waitlist has been busy for
	// less than half a year.
	costLeast = 0x1p-30
	// costMost keeps tags small enough for costLeast to count.
	costMost = 1e6
	// keepLonger is how long Redis keeps the record of a task beyond its longest wait, in case the task is delivered
	// late.
	keepLonger = 24 * time.Hour
)

// Entry is a task that joins the waitlist of a bucket, or goes back to its place in it.
type Entry struct {
	Task

	// Bucket is any name. The package does not parse it.
	Bucket string
	// Class is the part of the waitlist that the task belongs to. The classes of a bucket take turns, and the flows
	// of a class share its turns. A bucket should have few classes. A task keeps the class of its tag.
	Class string
	// Turn is the length of the turn that the task takes from its class: seconds of the scarcest meter divided by the
	// weight of the class. It has the same bounds as Cost.
	Turn float64
	// Flow is the part of the class that the task belongs to. Tasks of one flow wait in the order in which they joined.
	Flow string
	// Cost is by how much the task moves the end of its flow on: seconds of the scarcest meter divided by the weight
	// of the flow. It counts as at least 2^-30 (1e-9) and at most 1e6 s. It is ignored if the task has a tag in the
	// bucket.
	Cost float64
	// Tokens is the charge of the task, by meter.
	Tokens map[string]float64
	// Urgent is stored for the dispatcher.
	Urgent bool
	// Reserved is stored for the bucket. It is true if the task has a reservation there.
	Reserved bool
	// Front puts the task before all waiting tasks but earlier ones with Front, if it has not joined the bucket yet.
	Front bool
	// Info is stored for people. A record with an Info or a Bucket of more than 60 bytes takes twice the memory.
	Info []byte
	// Answered is true if the bucket has answered that the task may start in Ready. Zero or less means now.
	Answered bool
	Ready    time.Duration
	// Keep is the longest time that the caller expects the task to wait. The record of the task expires a day later.
	Keep time.Duration
}

// Join puts the tasks into the waitlists of their buckets. A task with a tag in its bucket goes to its place, even if
// it was promoted. The tag of a new task is the larger of the last promoted tag and the end of its flow. The cost of
// the task moves that end on. A task with Timer.At gets its tag when the timer is due. A task is in the list of one
// bucket at a time: if it waits in another bucket, it leaves that list and keeps the tag.
//
// A task that waits alone, and that its bucket lets start now, is promoted at once: the caller wakes it, as the
// dispatcher does with its own. If the task may start later, a look at the bucket is planned for then.
// If another task is now the first of its queue in the bucket, a look is due, and Join wakes the dispatcher.
//
// Join stores what is reported first, as Report does: a bucket that refused a task has to be known before the task
// joins.
//
// Each 128 entries are one atomic change, in their order.
func (w *Waitlist) Join(ctx context.Context, first Reported, entries ...Entry) (Joined, error) {
	joined := Joined{Sums: map[string]map[string]float64{}}
	for some := range slices.Chunk(entries, together) {
		args := first.args()
		first = Reported{}
		for _, e := range some {
			tokens, err := json.Marshal(e.Tokens)
			if err != nil {
				return joined, fmt.Errorf("join a waitlist: tokens of %s: %w", e.Task, err)
			}
			ready := ""
			if e.Answered {
				ready = strconv.FormatInt(max(0, e.Ready).Microseconds(), 10)
			}
			args = append(args, e.String(), e.Bucket, e.Flow, e.cost(), e.Reserved, e.Urgent, tokens, e.Info,
				(max(0, e.Keep) + keepLonger).Milliseconds(), e.Class, bounded(e.Turn), ready)
		}
		r := w.run(ctx, "join a waitlist", w.scripts.join, args...)
		for range r.count() {
			joined.Promoted = append(joined.Promoted, r.task())
		}
		for len(r.texts) > 0 && r.err == nil {
			bucket := r.text()
			joined.Sums[bucket] = r.sums()
		}
		if r.err != nil {
			return joined, r.err
		}
	}
	return joined, nil
}

// Joined is what became of tasks that joined waitlists.
type Joined struct {
	// Promoted are the tasks that were promoted at once, in order.
	Promoted []Task
	// Sums are the charges of all waiting and promoted tasks, by bucket and meter.
	Sums map[string]map[string]float64
}

// cost is negative for Front.
func (e Entry) cost() float64 {
	if e.Front {
		return -1
	}
	return bounded(e.Cost)
}

// bounded is a cost within its bounds; one that is not a number counts as the least.
func bounded(cost float64) float64 {
	if !(cost >= costLeast) {
		return costLeast
	}
	return min(cost, costMost)
}
