// Package class says how waiting tasks share a bucket: the class in which the task of a charge waits, and the weights
// of
// classes and flows. It is pure.
package class

import (
	"cmp"
	"maps"
	"slices"

	"github.com/headway-go/headway/reservations"
)

// Urgent is the class of urgent tasks in a limit with headroom. No priority has this name.
const Urgent = "!urgent"

// Weight is the weight of a flow in a limit: that of Weights, or 1.
func Weight(l reservations.Limit, flow string) float64 {
	if w, ok := l.Weights[flow]; ok {
		return w
	}
	return 1
}

// Of is the class of the waitlist in which the task of the charge waits, and the weight of this class among the
// others: the priority, or the class of urgent tasks in a limit with headroom. A priority that the limit does not have
// is its lowest. The weight of urgent tasks leaves OrdinaryShare to all priorities together.
func Of(l reservations.Limit, c reservations.Charge) (name string, weight float64) {
	if rules := l.Rules(); c.Urgent && rules.HasHeadroom() {
		all := 0.
		for _, w := range l.Priorities {
			all += w
		}
		if all == 0 {
			all = 1
		}
		return Urgent, all * (1 - rules.OrdinaryShare) / rules.OrdinaryShare
	}
	if len(l.Priorities) == 0 {
		return "", 1
	}
	if w, ok := l.Priorities[c.Priority]; ok {
		return c.Priority, w
	}
	name = slices.MinFunc(slices.Collect(maps.Keys(l.Priorities)), func(a, b string) int {
		return cmp.Or(cmp.Compare(l.Priorities[a], l.Priorities[b]), cmp.Compare(a, b))
	})
	return name, l.Priorities[name]
}
