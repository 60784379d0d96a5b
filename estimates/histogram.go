package estimates

import "math"

const (
	// perOctave is how finely ratios are told apart: by 4.4 %.
	perOctave = 16
	// octaves on each side of 1.
	octaves = 8
	// Bins is how many there are.
	Bins = 2 * octaves * perOctave
)

// Histogram counts ratios from 1/256 to 256 on a logarithmic scale; those beyond are counted at its ends. The zero value is empty.
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

// Quantile is the ratio that a share q of those counted do not exceed, to within half a bin: 2.2 %. It is not ok where none was counted.
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
