// Package measure computes figures from the calls that arrived at a provider, by pure functions.
package measure

import (
	"slices"
	"time"
)

// Arrival is one call that reached the provider.
type Arrival struct {
	// At is the time since the beginning of the run.
	At time.Duration
	// Seq is the place of the task in the order of enqueueing. Tokens is the usage of the call.
	Seq    int
	Tokens float64
}

// Limit is a token bucket: Burst + Rate * T in any T seconds.
type Limit struct{ Rate, Burst float64 }

// Allowed is the largest number of tokens in a window of this length.
func (l Limit) Allowed(window time.Duration) float64 { return l.Burst + l.Rate*window.Seconds() }

// Sorted returns the arrivals sorted by time.
func Sorted(arrivals []Arrival) []Arrival {
	sorted := slices.Clone(arrivals)
	slices.SortStableFunc(sorted, func(a, b Arrival) int { return int(a.At - b.At) })
	return sorted
}

// Tokens returns the sum of the used tokens.
func Tokens(arrivals []Arrival) float64 {
	sum := 0.0
	for _, a := range arrivals {
		sum += a.Tokens
	}
	return sum
}

// Span returns the time from the first arrival to the last, or zero for less than two.
func Span(arrivals []Arrival) time.Duration {
	if len(arrivals) < 2 {
		return 0
	}
	sorted := Sorted(arrivals)
	return sorted[len(sorted)-1].At - sorted[0].At
}

// Gap returns the longest time between two consecutive arrivals, or zero for less than two.
func Gap(arrivals []Arrival) time.Duration {
	var longest time.Duration
	sorted := Sorted(arrivals)
	for i := 1; i < len(sorted); i++ {
		longest = max(longest, sorted[i].At-sorted[i-1].At)
	}
	return longest
}
