package tasks

import (
	"cmp"
	"slices"

	"github.com/headway-go/headway/internal/text/batchref"
	"github.com/headway-go/headway/reservations"
)

// Terms are what a request says beside what it sends: what it takes from limits, how it shares them, and which line of
// a batch it is. A task type that embeds Terms implements Charger and Optioner.
type Terms struct {
	// Taken is what the task takes from limits, the narrowest first, the provider's last. None means that the task is
	// unlimited.
	Taken []reservations.Charge `json:"charges,omitempty"`
	// CustomID is the caller's own name for the request, as in a batch file. It is not sent.
	CustomID string `json:"custom_id,omitempty"`
	// Urgent lets the task start before ordinary ones where a limit has headroom: a person waits for the answer.
	Urgent bool `json:"urgent,omitempty"`
	// Flow names what the request belongs to in all its limits, e.g. a user; see reservations.Charge. Empty means its
	// batch, so that a small batch does not wait behind a large one.
	Flow string `json:"flow,omitempty"`
	// Priority is one of the limits' priorities; see reservations.Charge.
	Priority string `json:"priority,omitempty"`
	// Batch says which request of a batch file the task is. Nil for any other.
	Batch *BatchRef `json:"batch,omitempty"`
}

// BatchRef names a request of a batch file. Headway's commands and its gateway make it.
type BatchRef batchref.Ref

// Charges implements Charger: what is taken. Urgent, Flow and Priority count for each charge that does not say it
// itself.
func (t Terms) Charges() []reservations.Charge {
	charges := slices.Clone(t.Taken)
	for i := range charges {
		c := &charges[i]
		c.Urgent = c.Urgent || t.Urgent
		if c.Flow, c.Priority = cmp.Or(c.Flow, t.Flow), cmp.Or(c.Priority, t.Priority); c.Flow == "" && t.Batch != nil {
			c.Flow = t.Batch.Batch
		}
	}
	return charges
}

// TaskOptions implements Optioner: a request of a batch has an ID of its own, so that it is enqueued once.
func (t Terms) TaskOptions() Options {
	if t.Batch == nil {
		return Options{}
	}
	return Options{ID: batchref.Ref(*t.Batch).TaskID()}
}
