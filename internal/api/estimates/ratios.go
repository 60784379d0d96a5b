package estimates

import "math"

const (
	// QuantileDefault is the share of requests that use no more than their reservation, weighted by size.
	QuantileDefault = 0.9
	// floor is the smallest reservation, as a share of the estimate.
	floor = 0.05
	// least is the number of requests before anything is scaled.
	least = 20

	// A prompt has at most as many tokens as bytes. The estimate counts four bytes as a token.
	inputMost = 4
	// An answer without a bound may be this much longer than estimated.
	openMost = 64
)

// Config chooses how cautious reservations are.
type Config struct {
	// Quantile is the share of requests that use no more than their reservation, weighted by estimated size, above 0
	// and up to 1. Zero means QuantileDefault. At 0.5 the sum of reservations is nearest to the usage, and half of
	// the requests owe tokens.
	Quantile float64
}

// Ratios turn an estimate into a reservation. The zero value leaves the estimate unchanged.
type Ratios struct{ Input, Output, Open float64 }

// ratiosOf returns the learned ratios, within their bounds. A ratio of too few requests is 1.
func ratiosOf(c *Counts, quantile float64) Ratios {
	of := func(kind Kind, most float64) float64 {
		r, ok := c.Ratios[kind].Quantile(quantile)
		if !ok || c.Seen[kind] < least {
			return 1
		}
		return min(max(r, floor), most)
	}
	return Ratios{Input: of(KindInput, inputMost), Output: of(KindOutput, 1), Open: of(KindOpen, openMost)}
}

// Scale returns the tokens to reserve for a request. Open is true if the request does not bound its answer. An
// estimate above zero gives at least one token.
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
	// octaves is the range of the scale on each side of 1.
	octaves = 8
	// Bins is the number of bins.
	Bins = 2 * octaves * perOctave
)

// Histogram counts ratios from 1/256 to 256 on a logarithmic scale. Ratios beyond count in the first or last bin. The
// zero value is empty.
type Histogram [Bins]int64

// Add counts one ratio. It ignores NaN, zero and negative ratios.
func (h *Histogram) Add(ratio float64) { h.Weigh(ratio, 1) }

// Weigh counts one ratio with a weight, at least one.
func (h *Histogram) Weigh(ratio float64, weight int64) {
	if bin, ok := binOf(ratio); ok {
		h[bin] += max(1, weight)
	}
}

// Merge adds the counts of o.
func (h *Histogram) Merge(o *Histogram) {
	for i, n := range o {
		h[i] += n
	}
}

// N is the sum of the weights of all ratios.
func (h *Histogram) N() (n int64) {
	for _, c := range h {
		n += c
	}
	return n
}

// Quantile returns the ratio that a share q of the counted ratios do not exceed, exact to half a bin: 2.2 %. Ok is
// false if no ratio was counted.
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

// valueAt returns the ratio at a place of the scale.
func valueAt(place float64) float64 { return math.Exp2(place/perOctave - octaves) }
