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
	// Quantile is the share of requests that use no more than is reserved for them, each counted by its estimated size,
	// above 0 and up to 1. Zero means QuantileDefault. At 0.5 what is reserved is nearest to what is used, and half of
	// the requests owe something.
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

// Scale is what is to be reserved for a request; open says that nothing bounds its answer. What was estimated to take
// something takes at least one token.
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

const (
	// perOctave is the resolution of ratios: 4.4 %.
	perOctave = 16
	// octaves on each side of 1.
	octaves = 8
	// Bins is how many there are.
	Bins = 2 * octaves * perOctave
)

// Histogram counts ratios from 1/256 to 256 on a logarithmic scale; those beyond are counted at its ends. The zero
// value is empty.
type Histogram [Bins]int64

// Add counts one ratio. What is no number above zero is not counted.
func (h *Histogram) Add(ratio float64) { h.Weigh(ratio, 1) }

// Weigh counts one ratio as weight of them, at least one.
func (h *Histogram) Weigh(ratio float64, weight int64) {
	if bin, ok := binOf(ratio); ok {
		h[bin] += max(1, weight)
	}
}

// Merge adds what another one has counted.
func (h *Histogram) Merge(o *Histogram) {
	for i, n := range o {
		h[i] += max(0, n)
	}
}

// N is how many ratios were counted, each by its weight.
func (h *Histogram) N() (n int64) {
	for _, c := range h {
		n += c
	}
	return n
}

// Quantile is the ratio that a share q of those counted do not exceed, to within half a bin: 2.2 %. It is not ok where
// none was counted.
func (h *Histogram) Quantile(q float64) (ratio float64, ok bool) {
	n := h.N()
	if n <= 0 || math.IsNaN(q) {
		return 1, false
	}
	rank := min(max(q, 0), 1) * float64(n)
	var below float64
	last := 0
	for i, c := range h {
		if c == 0 {
			continue
		}
		if last = i; below+float64(c) >= rank {
			within := min(max((rank-below)/float64(c), 0), 1)
			return valueAt(float64(i) + within), true
		}
		below += float64(c)
	}
	return valueAt(float64(last + 1)), true
}

func binOf(ratio float64) (int, bool) {
	if !(ratio > 0) || math.IsInf(ratio, 0) {
		return 0, false
	}
	return int(min(max(math.Floor((math.Log2(ratio)+octaves)*perOctave), 0), Bins-1)), true
}

// valueAt is the ratio at a place of the scale.
func valueAt(place float64) float64 { return math.Exp2(place/perOctave - octaves) }
