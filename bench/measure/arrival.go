// Package measure turns what a provider saw into figures. Everything in it is a pure function of the arrivals.
package measure

import (
	"slices"
	"time"
)

// Arrival is one call that reached the provider.
type Arrival struct {
	// At is when, since the beginning of the run.
	At time.Duration
	// Seq is the place of the task in the order of enqueueing, Tokens what the call used.
	Seq    int
	Tokens float64
}

// Limit is a token bucket: Burst + Rate * T in any T seconds.
type Limit struct{ Rate, Burst float64 }

// Allowed is the most that a window of this length may see.
func (l Limit) Allowed(window time.Duration) float64 { return l.Burst + l.Rate*window.Seconds() }

// Sorted are the arrivals in the order of their time.
func Sorted(arrivals []Arrival) []Arrival {
	sorted := slices.Clone(arrivals)
	slices.SortStableFunc(sorted, func(a, b Arrival) int { return int(a.At - b.At) })
	return sorted
}

// Tokens is what all of them used.
func Tokens(arrivals []Arrival) float64 {
	sum := 0.0
	for _, a := range arrivals {
		sum += a.Tokens
	}
	return sum
}

// Span is the time from the first to the last. Zero for less than two.
func Span(arrivals []Arrival) time.Duration {
	if len(arrivals) < 2 {
		return 0
	}
	sorted := Sorted(arrivals)
	return sorted[len(sorted)-1].At - sorted[0].At
}

// Gap is the longest time between two neighbours. Zero for less than two.
func Gap(arrivals []Arrival) time.Duration {
	var longest time.Duration
	sorted := Sorted(arrivals)
	for i := 1; i < len(sorted); i++ {
		longest = max(longest, sorted[i].At-sorted[i-1].At)
	}
	return longest
}
