package waitlist

import (
	"context"
	"time"
)

// Entry is a task that joins the waitlist of a bucket, or goes back to its place in it.
type Entry struct {
	Task

	// Bucket is any name, which the package does not read.
	Bucket string
	// Flow is the part of the waitlist that the task belongs to. Tasks of one flow start in the order in which they joined.
	Flow string
	// Cost is what the task adds to the end of its flow: seconds of the scarcest meter divided by the weight of the flow.
	// The least that counts is 1e-6 s. It matters only if the task has no tag in the bucket yet.
	Cost float64
	// Tokens is what the task charges, by meter.
	Tokens map[string]float64
	// Urgent is stored for the dispatcher.
	Urgent bool
	// Reserved is stored for the bucket: the task has a reservation there.
	Reserved bool
	// Front puts the task before all that wait, if it has no tag in the bucket yet.
	Front bool
	// Info is stored for people.
	Info []byte
	// Keep is how long the task waits at most as far as the caller knows. Its record expires a day later.
	Keep time.Duration
}

// Join puts the tasks into the waitlists of their buckets. A task with a tag in its bucket goes back to its place, also if it
// was promoted. A new one gets the larger of the tag of the last promoted task and the end of its flow, and moves that end on
// by its cost. A task is in the list of one bucket at a time: if it waits in another bucket, it leaves that list and keeps the tag.
//
// If a task is now the first of its queue in the bucket, the next look at the bucket is due now and the dispatcher is woken. So a task
// that its bucket refused goes back after the answer of the bucket was reported, not before.
//
// More than 128 entries are several atomic changes, in their order.
func (w *Waitlist) Join(ctx context.Context, entries []Entry) error { panic("not written") }
