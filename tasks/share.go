package tasks

import (
	"cmp"

	"github.com/headway-go/headway/reservations"
)

// Share returns the charges of one task with how the task shares its limits: Urgent, Flow and Priority of common, for
// each charge that does not say it itself. Without any flow, a request of a batch is of the flow of its batch in its
// first limit, so that a small batch does not wait behind a large one. Charges is changed.
func Share(charges []reservations.Charge, common reservations.Charge, batch *BatchRef) []reservations.Charge {
	for i := range charges {
		c := &charges[i]
		c.Urgent = c.Urgent || common.Urgent
		c.Flow, c.Priority = cmp.Or(c.Flow, common.Flow), cmp.Or(c.Priority, common.Priority)
		if i == 0 && c.Flow == "" && batch != nil {
			c.Flow = batch.Batch
		}
	}
	return charges
}
