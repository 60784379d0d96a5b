// Package class says how waiting tasks share a bucket: the class, the tenant and the flow of a task, and how long its
// turns in them are. It is pure.
package class

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/reservations"
)

// Urgent is the class of urgent tasks in a limit with headroom. No priority has this name.
const Urgent = "!urgent"

// Weight is the weight of a tenant or a flow in a limit, by its name, or by the key of a tenant's bucket. It is 1 where
// Weights has neither.
func Weight(l reservations.Limit, name string) float64 {
	_, key, _ := strings.Cut(name, ":")
	for _, n := range []string{name, key} {
		if w, ok := l.Weights[n]; ok {
			return w
		}
	}
	return 1
}

// Turns say where a task waits in a bucket, and how long its turns are: seconds of the scarcest meter divided by the
// weights of class, tenant and flow.
type Turns struct {
	Class, Tenant, Flow string
	Turn, Part, Cost    float64
}

// TurnsOf is where a task with these charges waits for c, one of them.
func TurnsOf(l reservations.Limit, charges []reservations.Charge, c reservations.Charge) Turns {
	name, weight := Of(l, c)
	t := Turns{Class: name, Tenant: reservations.TenantOf(charges, c.Limit)}
	if !l.IgnoreFlows {
		t.Flow = c.Flow
	}
	rules := bucket.Rules(l)
	seconds := rules.Seconds(rules.Vector(c.Tokens))
	t.Turn, t.Part, t.Cost = seconds/weight, seconds/Weight(l, t.Tenant), seconds/Weight(l, t.Flow)
	return t
}

// Of is the class of the waitlist in which the task of the charge waits, and the weight of this class among the
// others: the priority, or the class of urgent tasks in a limit with headroom. A priority that the limit does not have
// is its lowest. The weight of urgent tasks leaves OrdinaryShare to all priorities together.
func Of(l reservations.Limit, c reservations.Charge) (name string, weight float64) {
	if rules := bucket.Rules(l); c.Urgent && rules.HasHeadroom() {
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
