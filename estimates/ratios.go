package estimates

import (
	"errors"
	"fmt"
	"math"
)

const (
	// QuantileDefault is the share of requests that use no more than is reserved for them, each counted by its size.
	QuantileDefault = 0.9
	// FloorDefault is the least that is reserved, as a share of the estimate.
	FloorDefault = 0.05
	// least is how many requests must be known before anything is scaled.
	least = 20

	// A prompt has no more tokens than bytes, of which the estimate takes four for one.
	inputMost = 4
	// An answer that nothing bounds may be this much longer than was guessed.
	openMost = 64
)

// Config says how careful to be.
type Config struct {
	// Quantile is the share of requests that use no more than is reserved for them, each counted by its estimated size, above 0 and up to 1. Zero means QuantileDefault. At 0.5 what is reserved
	// is nearest to what is used, and half of the requests owe something.
	Quantile float64
	// Floor is the least that is reserved, as a share of the estimate, up to 1. Zero means FloorDefault.
	Floor float64
}

// Validate joins every fault.
func (c Config) Validate() error {
	var faults []error
	if !(c.Quantile >= 0 && c.Quantile <= 1) {
		faults = append(faults, fmt.Errorf("quantile: %v must be above 0 and at most 1", c.Quantile))
	}
	if !(c.Floor >= 0 && c.Floor <= 1) {
		faults = append(faults, fmt.Errorf("floor: %v must be between 0 and 1", c.Floor))
	}
	return errors.Join(faults...)
}

func (c Config) withDefaults() Config {
	if !(c.Quantile > 0 && c.Quantile <= 1) {
		c.Quantile = QuantileDefault
	}
	if !(c.Floor > 0 && c.Floor <= 1) {
		c.Floor = FloorDefault
	}
	return c
}

// Ratios turn an estimate into what is to be reserved. The zero value leaves it as it is.
type Ratios struct{ Input, Output, Open float64 }

// ratiosOf are what was learned, within its bounds: 1 of what too few requests have shown.
func ratiosOf(c *Counts, config Config) Ratios {
	of := func(kind Kind, most float64) float64 {
		r, ok := c.Ratios[kind].Quantile(config.Quantile)
		if !ok || c.Seen[kind] < least {
			return 1
		}
		return min(max(r, config.Floor), most)
	}
	return Ratios{Input: of(KindInput, inputMost), Output: of(KindOutput, 1), Open: of(KindOpen, openMost)}
}

// Scale is what is to be reserved for a request; open says that nothing bounds its answer. What was estimated to take something takes at least one token.
func (r Ratios) Scale(t Tokens, open bool) Tokens {
	output := r.Output
	if open {
		output = r.Open
	}
	return Tokens{Input: scaled(t.Input, r.Input), Output: scaled(t.Output, output)}
}

func scaled(n, by float64) float64 {
	if !(n > 0) || !(by > 0) || math.IsInf(n*by, 0) {
		return n
	}
	return math.Ceil(n*by - 1e-9)
}
