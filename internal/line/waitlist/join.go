package waitlist

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/headway-go/headway/internal/line/class"
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
	// Turns say where the task waits. The classes of a bucket take turns; in these turns the tenants of the class do, and
	// in theirs the flows of the tenant. Tasks of one flow wait in the order in which they joined. A bucket should have
	// few classes. No name contains a byte of zero. Each turn counts as at least 2^-30 (1e-9) and at most 1e6 s.
	class.Turns
	// Tokens is the charge of the task, by meter.
	Tokens map[string]float64
	// Urgent is stored for the dispatcher.
	Urgent bool
	// Reserved is stored for the bucket. It is true if the task has a reservation there.
	Reserved bool
	// Front has the task come back, as one that was promoted before all others, if it has no place in the bucket yet. So
	// it goes before all waiting tasks but earlier ones with Front.
	Front bool
	// Info is stored for people. A record with an Info or a Bucket of more than 60 bytes takes twice the memory.
	Info []byte
	// Answered is true if the bucket has answered that the task may start in Ready. Zero or less means now.
	Answered bool
	Ready    time.Duration
	// Keep is the longest time that the caller expects the task to wait. The record of the task expires a day later.
	Keep time.Duration
}

// Join puts the tasks into the waitlists of their buckets. A new task is behind its flow. One that was promoted there
// before comes back: it goes before all tasks that were not, in the order of the first promotions. One that left the
// list otherwise goes back to its place. A task with Timer.At gets its place when the timer is due. A task is in the
// list of one bucket at a time: if it waits in another bucket, it leaves that list.
//
// A task that waits alone, and that its bucket lets start now, is promoted at once: the caller wakes it, as the
// dispatcher does with its own. If the task may start later, a look at the bucket is planned for then.
// If another task is now the first of its list, a look is due, and Join wakes the dispatcher.
//
// Join stores what is reported first, as Report does: a bucket that refused a task has to be known before the task
// joins.
//
// Each 128 entries are one atomic change, in their order.
func (w *Waitlist) Join(ctx context.Context, first Reported, entries ...Entry) (Joined, error) {
	joined := Joined{Sums: map[string]map[string]float64{}}
	for some := range slices.Chunk(entries, together) {
		texts := make([]entryText, len(some))
		for i, e := range some {
			var err error
			if texts[i], err = e.text(); err != nil {
				return joined, fmt.Errorf("join a waitlist: tokens of %s: %w", e.Task, err)
			}
		}
		var answer struct {
			Promoted []string
			Sums     []struct {
				Bucket string
				Sums   sums
			}
		}
		a := first.args(args{"entries": texts, "begin": BeginWithin.Microseconds()})
		first = Reported{}
		if err := w.run(ctx, "join a waitlist", w.scripts.join, a, &answer); err != nil {
			return joined, err
		}
		joined.Promoted = append(joined.Promoted, named(answer.Promoted)...)
		for _, of := range answer.Sums {
			joined.Sums[of.Bucket] = of.Sums.tokens()
		}
	}
	return joined, nil
}

// entryText is an Entry as the scripts have it.
type entryText struct {
	Task     string  `json:"task"`
	Bucket   string  `json:"bucket"`
	Class    string  `json:"class"`
	Tenant   string  `json:"tenant"`
	Flow     string  `json:"flow"`
	Turn     float64 `json:"turn"`
	Part     float64 `json:"part"`
	Cost     float64 `json:"cost"`
	Front    bool    `json:"front"`
	Tokens   string  `json:"tokens"`
	Urgent   bool    `json:"urgent"`
	Reserved bool    `json:"reserved"`
	Info     string  `json:"info"`
	Keep     int64   `json:"keep"`            // milliseconds
	Ready    *int64  `json:"ready,omitempty"` // microseconds
}

func (e Entry) text() (entryText, error) {
	tokens, err := json.Marshal(e.Tokens)
	t := entryText{
		Task: e.String(), Bucket: e.Bucket, Class: e.Class, Tenant: e.Tenant, Flow: e.Flow, Turn: bounded(e.Turn),
		Part: bounded(e.Part), Cost: bounded(e.Cost), Front: e.Front, Tokens: string(tokens), Urgent: e.Urgent,
		Reserved: e.Reserved, Info: string(e.Info), Keep: (max(0, e.Keep) + keepLonger).Milliseconds(),
	}
	if e.Answered {
		t.Ready = new(max(0, e.Ready).Microseconds())
	}
	return t, err //nolint:wrapcheck // the caller names the task
}

// Joined is what became of tasks that joined waitlists.
type Joined struct {
	// Promoted are the tasks that were promoted at once, in order.
	Promoted []Task
	// Sums are the charges of all waiting and promoted tasks, by bucket and meter.
	Sums map[string]map[string]float64
}

// bounded is a cost within its bounds; one that is not a number counts as the least.
func bounded(cost float64) float64 {
	if !(cost >= costLeast) {
		return costLeast
	}
	return min(cost, costMost)
}
