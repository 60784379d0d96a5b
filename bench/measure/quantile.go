package measure

import (
	"cmp"
	"slices"
)

// Quantile returns the value that the part q of sorted values does not exceed, or zero without values.
func Quantile[T cmp.Ordered](sorted []T, q float64) T {
	var none T
	if len(sorted) == 0 {
		return none
	}
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// Median returns the middle value, or the mean of the two middle values, or zero without values. The values may be in
// any order.
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
