package waitlist

import (
	"cmp"
	"context"
	"slices"

	"github.com/headway-go/headway/internal/lua"
)

// State is the state of a delivered task in the waitlists.
type State int

// The states of a task.
const (
	StateNew      State = iota // in no waitlist
	StateWaiting               // the task is in the list of a bucket
	StatePromoted              // the task has left the list, to ask its bucket
)

// Arrival is a delivered task.
type Arrival struct {
	Task

	// Buckets are the buckets that it asks.
	Buckets []string
}

// Arrived is what the waitlists hold of a task.
type Arrived struct {
	State State
	// Bucket is where the task waits or is promoted, empty for a new one.
	Bucket string
	// Held lists the buckets in which the task has a tag, sorted by name.
	Held []Held
	// Waiting is the number of waiting tasks in each of Arrival.Buckets. Promoted tasks do not count.
	Waiting []int
	// Info is Entry.Info.
	Info []byte
}

// Held is a bucket in which a task has a tag.
type Held struct {
	Bucket   string
	Reserved bool // the task has a reservation there
}

// Arrive returns what the waitlists hold of each task, in the order of the arrivals. It changes nothing. It reads each
// 128 arrivals at one moment.
func (w *Waitlist) Arrive(ctx context.Context, arrivals []Arrival) ([]Arrived, error) {
	found := make([]Arrived, 0, len(arrivals))
	for some := range slices.Chunk(arrivals, together) {
		var args []any
		for _, a := range some {
			args = lua.Args(a.Buckets, append(args, a.String(), len(a.Buckets))...)
		}
		r := w.run(ctx, "look up tasks in the waitlists", w.scripts.arrive, args...)
		for _, a := range some {
			one := r.arrived()
			for range a.Buckets {
				one.Waiting = append(one.Waiting, r.count())
			}
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
