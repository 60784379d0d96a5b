package tasks

import (
	"cmp"

	"github.com/headway-go/headway/reservations"
)

// Share sets Urgent, Flow and Priority of each charge to the values of common, unless the charge sets them itself. If
// there is no flow at all, a request of a batch gets the ID of its batch as the flow in its first limit. So a small
// batch does not wait behind a large one. Share changes and returns charges.
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
