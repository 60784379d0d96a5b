package waitlist

import (
	"cmp"
	"context"
	"slices"
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

	// Buckets are the buckets that it asks. Classes has the class behind whose tasks it waits in each of them; empty means
	// all. Nil leaves Arrived.Before out.
	Buckets, Classes []string
}

// Arrived is what the waitlists hold of a task.
type Arrived struct {
	State State
	// Bucket is where the task waits or is promoted, empty for a new one.
	Bucket string
	// Held lists the buckets in which the task has a tag, sorted by name.
	Held []Held
	// Waiting is the number of waiting tasks in each of Arrival.Buckets, and Before that of the class in Arrival.Classes.
	// Promoted tasks do not count.
	Waiting, Before []int
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
	type arrival struct {
		Task    string   `json:"task"`
		Buckets []string `json:"buckets,omitempty"`
		Classes []string `json:"classes,omitempty"`
	}
	found := make([]Arrived, 0, len(arrivals))
	for some := range slices.Chunk(arrivals, together) {
		tasks := make([]arrival, len(some))
		for i, a := range some {
			tasks[i] = arrival{Task: a.String(), Buckets: a.Buckets, Classes: a.Classes}
		}
		var answer struct{ Arrived []arrivedText }
		if err := w.read(ctx, "look up tasks in the waitlists", w.scripts.arrive, args{"tasks": tasks}, &answer); err != nil {
			return nil, err
		}
		for i := range answer.Arrived {
			found = append(found, answer.Arrived[i].arrived())
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
		var answer struct{ Arrived []arrivedText }
		if err := w.run(ctx, "leave the waitlists", w.scripts.leave, args{"tasks": names(some)}, &answer); err != nil {
			return left, err
		}
		for i := range answer.Arrived {
			left = append(left, answer.Arrived[i].arrived())
		}
	}
	return left, nil
}

// arrivedText is the answer of the function arrived in the scripts.
type arrivedText struct {
	State   State
	Bucket  string
	Info    string
	Held    []Held
	Waiting []int
	Before  []int
}

func (a *arrivedText) arrived() Arrived {
	found := Arrived{State: a.State, Bucket: a.Bucket, Held: a.Held, Waiting: a.Waiting, Before: a.Before}
	if a.Info != "" {
		found.Info = []byte(a.Info)
	}
	slices.SortFunc(found.Held, func(a, b Held) int { return cmp.Compare(a.Bucket, b.Bucket) })
	return found
}
