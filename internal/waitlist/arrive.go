package waitlist

import "context"

// State is what a delivered task is to the waitlists.
type State int

// The states of a task.
const (
	StateNew      State = iota // in no waitlist
	StateWaiting               // in the list of a bucket
	StatePromoted              // out of the list, to ask its bucket
)

// Arrival is a delivered task and the buckets whose waitlists matter to it.
type Arrival struct {
	Task

	Buckets []string
}

// Arrived is what the waitlists hold of a task.
type Arrived struct {
	State State
	// Bucket is where the task waits or is promoted, empty for a new one.
	Bucket string
	// Held lists the buckets in which the task has a tag, in order of their names.
	Held []Held
	// Waiting counts the waiting tasks, without the promoted ones, of each bucket of the Arrival, in that order.
	Waiting []int
	// Info is that of the Entry.
	Info []byte
}

// Held is one bucket in which a task has a tag.
type Held struct {
	Bucket   string
	Reserved bool // the task has a reservation there
}

// Arrive returns what the waitlists hold of delivered tasks, in the order of the arrivals. It changes nothing.
func (w *Waitlist) Arrive(ctx context.Context, arrivals []Arrival) ([]Arrived, error) {
	panic("not written")
}

// Leave removes every trace of tasks that will not start here, and returns what the waitlists held of each, without Waiting. The next
// look at the buckets in which they waited is due now.
//
// More than 128 tasks are several atomic changes: after an error, Leave can be repeated but returns no more what is already removed.
func (w *Waitlist) Leave(ctx context.Context, tasks []Task) ([]Arrived, error) { panic("not written") }
