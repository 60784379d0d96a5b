package reservations

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

const (
	// MaxFlow bounds the name of a flow, in bytes.
	MaxFlow = 128
	// MinWeight is the smallest weight of a flow and of a priority.
	MinWeight = 0.001
	// MaxWeight is the largest weight of a flow and of a priority.
	MaxWeight = 1000
	// MaxPriorities bounds the priorities of one limit.
	MaxPriorities = 16
)

// ClassUrgent is the class of urgent tasks in a limit with headroom. No priority has this name.
const ClassUrgent = "!urgent"

// Weight is the weight of a flow: that of Weights, or 1.
func (l Limit) Weight(flow string) float64 {
	if w, ok := l.Weights[flow]; ok {
		return w
	}
	return 1
}

// Priority is the priority that a charge with this name of one counts for: the name itself, or the lowest priority if
// the limit does not have it. It is empty where the limit has no priorities.
func (l Limit) Priority(name string) string {
	if _, ok := l.Priorities[name]; ok || len(l.Priorities) == 0 {
		return name
	}
	return slices.MinFunc(slices.Collect(maps.Keys(l.Priorities)), func(a, b string) int {
		return cmp.Or(cmp.Compare(l.Priorities[a], l.Priorities[b]), cmp.Compare(a, b))
	})
}

// Class is the class of the waitlist in which the task of the charge waits, and the weight of this class among the
// others: the priority, or the class of urgent tasks in a limit with headroom. The weight of urgent tasks leaves
// OrdinaryShare to all priorities together.
func (l Limit) Class(c Charge) (name string, weight float64) {
	if c.Urgent && l.HasHeadroom() {
		all := 0.
		for _, w := range l.Priorities {
			all += w
		}
		if all == 0 {
			all = 1
		}
		return ClassUrgent, all * (1 - l.Share()) / l.Share()
	}
	if len(l.Priorities) == 0 {
		return "", 1
	}
	name = l.Priority(c.Priority)
	return name, l.Priorities[name]
}

// validateFlows finds faults of weights and priorities.
func (l Limit) validateFlows(fault func(field, format string, args ...any)) {
	weight := func(field string, w float64) {
		if !(w >= MinWeight && w <= MaxWeight) {
			fault(field, "weight %v must be from %v to %v", w, MinWeight, MaxWeight)
		}
	}
	for _, flow := range slices.Sorted(maps.Keys(l.Weights)) {
		if problem := NameProblem("flow", flow, MaxFlow); problem != "" || flow == "" {
			fault("weights", "%s", cmp.Or(problem, "a flow must have a name"))
			continue
		}
		weight("weights."+flow, l.Weights[flow])
	}
	if n := len(l.Priorities); n > MaxPriorities {
		fault("priorities", "%d priorities must be at most %d", n, MaxPriorities)
	}
	for _, name := range slices.Sorted(maps.Keys(l.Priorities)) {
		if !nameShape.MatchString(name) {
			fault("priorities", "name %.64q must be 1 to 64 letters, digits, '_', '-' or '.'", name)
			continue
		}
		weight("priorities."+name, l.Priorities[name])
	}
}

// ValidateFlow refuses a flow that NameProblem refuses, and a priority that can't be the name of one. The error matches
// ErrInvalidCharge.
func (c Charge) ValidateFlow() error {
	problem := NameProblem("flow", c.Flow, MaxFlow)
	if problem == "" && c.Priority != "" && !nameShape.MatchString(c.Priority) {
		problem = fmt.Sprintf("priority %.64q must be 1 to 64 letters, digits, '_', '-' or '.'", c.Priority)
	}
	if problem == "" {
		return nil
	}
	c.Flow, c.Priority = "", ""
	return &ChargeError{Charge: c, Err: ErrInvalidCharge, Problem: problem}
}

// ValidateNew is Validate for the charge of a task that is not queued yet. It also refuses a priority that the limit
// does not have, where the limit is known here and has priorities; the error matches ErrInvalidCharge. A queued task
// whose priority is unknown is served with the lowest one.
func (l *Limiter) ValidateNew(c Charge) error {
	if err := l.Validate(c); err != nil || c.Priority == "" {
		return err
	}
	set, err := l.known(c)
	if err != nil || set == nil {
		return err
	}
	limit, err := set.Configured(c.Limit)
	if err != nil || limit.Priority(c.Priority) == c.Priority {
		return err
	}
	return c.fault(ErrInvalidCharge, "", "priority %q is unknown in limit %q: there are %q",
		c.Priority, c.Limit, slices.Sorted(maps.Keys(limit.Priorities)))
}
