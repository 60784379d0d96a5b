package measure

import (
	"slices"
	"time"
)

// Lag returns how long after the earliest possible time each start was. It compares the k-th start with the k-th
// start of a perfect bucket. That bucket is full at the beginning and starts tasks in the order of Seq. Enqueued are
// the enqueue times by Seq; nil means that all tasks were enqueued at the first start. A negative value is a start
// that was too early. The result is sorted.
func Lag(arrivals []Arrival, limit Limit, enqueued map[int]time.Duration) []time.Duration {
	if len(arrivals) == 0 {
		return nil
	}
	sorted := Sorted(arrivals)
	ideal := ideals(arrivals, limit, func(a Arrival) time.Duration {
		if enqueued == nil {
			return sorted[0].At
		}
		return enqueued[a.Seq]
	})
	lag := make([]time.Duration, len(sorted))
	for i := range sorted {
		lag[i] = sorted[i].At - ideal[i]
	}
	slices.Sort(lag)
	return lag
}

// ideals returns the times at which a perfect bucket starts these tasks, first come first served.
func ideals(arrivals []Arrival, limit Limit, since func(Arrival) time.Duration) []time.Duration {
	inLine := slices.Clone(arrivals)
	slices.SortStableFunc(inLine, func(a, b Arrival) int { return a.Seq - b.Seq })
	ideal := make([]time.Duration, len(inLine))
	level, clock := limit.Burst, since(inLine[0])
	for i, a := range inLine {
		if at := since(a); at > clock {
			level = min(limit.Burst, level+limit.Rate*(at-clock).Seconds())
			clock = at
		}
		if short := a.Tokens - level; short > 0 {
			wait := time.Duration(short / limit.Rate * float64(time.Second))
			clock += wait
			level = a.Tokens
		}
		level -= a.Tokens
		ideal[i] = clock
	}
	return ideal
}

// PlacesLost returns, for each task, how many tasks were enqueued after it and started before it. The result is
// sorted.
func PlacesLost(arrivals []Arrival) []int {
	sorted := Sorted(arrivals)
	top := 0
	for _, a := range sorted {
		top = max(top, a.Seq+1)
	}
	started := make([]int, top+1) // a Fenwick tree over seq
	lost := make([]int, len(sorted))
	for i, a := range sorted {
		before := 0
		for j := a.Seq + 1; j > 0; j -= j & -j {
			before += started[j]
		}
		lost[i] = i - before
		for j := a.Seq + 1; j <= top; j += j & -j {
			started[j]++
		}
	}
	slices.Sort(lost)
	return lost
}
