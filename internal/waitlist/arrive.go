package waitlist

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/headway-go/headway/internal/lua"
)

// tagKept is how long Redis keeps the tag of a task that does not join. It is longer than a bucket takes to answer.
const tagKept = time.Minute

// State is the state of a delivered task in the waitlists.
type State int

// The states of a task.
const (
	StateNew      State = iota // in no waitlist
	StateWaiting               // the task is in the list of a bucket
	StatePromoted              // the task has left the list, to ask its bucket
)

// Arrival is a delivered task, or a task that a worker is about to deliver.
type Arrival struct {
	Task

	// Wants are the entries that the task may join with, in the order in which it asks their buckets. It joins with
	// one of them. Only Bucket, Class, Turn, Flow and Cost are read.
	Wants []Entry
	// Joins is true if the task will probably wait, even where no other task waits.
	Joins bool
}

// Arrived is what the waitlists hold of a task.
type Arrived struct {
	State State
	// Bucket is where the task waits or is promoted, empty for a new one.
	Bucket string
	// Held lists the buckets in which the task has a tag, sorted by name.
	Held []Held
	// Waiting is the number of waiting tasks in each bucket of Wants, in that order. Promoted tasks do not count.
	Waiting []int
	// Info is Entry.Info.
	Info []byte
	// At is the time of the arrival, by Redis's clock. It is not set by Leave and Position.
	At time.Time
}

// Held is a bucket in which a task has a tag.
type Held struct {
	Bucket   string
	Reserved bool // the task has a reservation there
}

// Arrive returns what the waitlists hold of each task, in the order of the arrivals. A task that is in no waitlist
// gets a tag. The tag is in the first bucket of Wants in which other tasks wait. If no other task waits, a task with
// Joins gets its tag in the first bucket of Wants. So tasks wait in the order in which they arrived, whichever bucket
// answers first. Later arrivals do not change the tag of a task in a bucket. Redis keeps the tag of a task that does
// not join for a minute. For a task that arrives while no other task waits, see Entry.Arrived.
//
// Each 128 arrivals are one atomic change, in their order.
func (w *Waitlist) Arrive(ctx context.Context, arrivals []Arrival) ([]Arrived, error) {
	found := make([]Arrived, 0, len(arrivals))
	for some := range slices.Chunk(arrivals, together) {
		args := []any{tagKept.Milliseconds()}
		for _, a := range some {
			args = append(args, a.String(), a.Joins, len(a.Wants))
			for _, e := range a.Wants {
				args = append(args, e.Bucket, e.Flow, e.cost(), e.Class, bounded(e.Turn))
			}
		}
		r := w.run(ctx, "look up tasks in the waitlists", w.scripts.arrive, args...)
		for _, a := range some {
			one := r.arrived()
			for range a.Wants {
				one.Waiting = append(one.Waiting, r.count())
			}
			one.At = r.moment()
			found = append(found, one)
		}
		if r.err != nil {
			return nil, r.err
		}
	}
	return found, nil
}

// Leave removes every trace of tasks that will not start here. It returns what the waitlists held of each task,
// without Waiting. A look at the buckets in which the tasks waited is due. A caller gives the turn that it took back
// to its flow, a task does not.
//
// Each 128 tasks are one atomic change. After an error, Leave returns the tasks that it removed before.
func (w *Waitlist) Leave(ctx context.Context, tasks []Task) ([]Arrived, error) {
	left := make([]Arrived, 0, len(tasks))
	for some := range slices.Chunk(tasks, together) {
		r := w.run(ctx, "leave the waitlists", w.scripts.leave, lua.Args(some)...)
		for range some {
			one := r.arrived()
			if r.err != nil {
				return left, r.err
			}
			left = append(left, one)
		}
	}
	return left, nil
}

// arrived reads the answer of the function arrived in the scripts.
func (r *reply) arrived() Arrived {
	a := Arrived{State: State(r.count()), Bucket: r.text()}
	if info := r.text(); info != "" {
		a.Info = []byte(info)
	}
	for range r.count() {
		a.Held = append(a.Held, Held{Bucket: r.text(), Reserved: r.flag()})
	}
	slices.SortFunc(a.Held, func(a, b Held) int { return cmp.Compare(a.Bucket, b.Bucket) })
	return a
}
