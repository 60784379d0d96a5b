package measure

import (
	"cmp"
	"slices"
)

// Quantile is the value that the part q of sorted values does not exceed. Zero for no values.
func Quantile[T cmp.Ordered](sorted []T, q float64) T {
	var none T
	if len(sorted) == 0 {
		return none
	}
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// Median is the middle value, the mean of the two in the middle for an even number, zero for none. The values may be in any order.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 0 {
		return (sorted[middle-1] + sorted[middle]) / 2
	}
	return sorted[middle]
}
