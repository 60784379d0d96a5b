package reservations

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/headway-go/headway/internal/bucket"
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

// validateFlows finds faults of weights and priorities.
func (l Limit) validateFlows(fault func(field, format string, args ...any)) {
	weight := func(field string, w float64) {
		if !(w >= MinWeight && w <= MaxWeight) {
			fault(field, "weight %v must be from %v to %v", w, MinWeight, MaxWeight)
		}
	}
	for _, flow := range slices.Sorted(maps.Keys(l.Weights)) {
		if problem := bucket.NameProblem("flow", flow, MaxFlow); problem != "" || flow == "" {
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

// validateNames refuses a charge that no limit can serve, whatever it takes: see validateKey, NameProblem for its flow,
// and a priority that can't be the name of one. The error matches ErrInvalidCharge.
func (c Charge) validateNames() error {
	if err := c.validateKey(); err != nil {
		return err
	}
	problem := bucket.NameProblem("flow", c.Flow, MaxFlow)
	if problem == "" && c.Priority != "" && !nameShape.MatchString(c.Priority) {
		problem = fmt.Sprintf("priority %.64q must be 1 to 64 letters, digits, '_', '-' or '.'", c.Priority)
	}
	if problem == "" {
		return nil
	}
	c.Flow, c.Priority = "", ""
	return &ChargeError{Charge: c, Err: ErrInvalidCharge, Problem: problem}
}
