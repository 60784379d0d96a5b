package measure

import "time"

// Share returns the used part of the limit: the tokens of all arrivals divided by the tokens that the limit allows
// from the first arrival to the last, Burst + Rate * Span. A bucket that is full at the first call and never idle
// gives 1. For less than two arrivals it is 0. For a run that was cut off, use ShareUntil.
func Share(arrivals []Arrival, limit Limit) float64 {
	return share(arrivals, limit, Span(arrivals))
}

// ShareUntil is Share from the first arrival until end, for a run that was cut off before its work was done. An end
// before the last arrival counts as the last arrival.
func ShareUntil(arrivals []Arrival, limit Limit, end time.Duration) float64 {
	if len(arrivals) == 0 {
		return 0
	}
	return share(arrivals, limit, max(Span(arrivals), end-Sorted(arrivals)[0].At))
}

func share(arrivals []Arrival, limit Limit, span time.Duration) float64 {
	if len(arrivals) < 2 {
		return 0
	}
	return Tokens(arrivals) / limit.Allowed(span)
}

// Worst returns the tokens of the fullest window of that length, divided by the tokens that the limit allows in it.
// Above 1 the limit was exceeded. Windows begin at an arrival and do not contain their end.
func Worst(arrivals []Arrival, limit Limit, window time.Duration) float64 {
	sorted := Sorted(arrivals)
	worst, sum, first := 0.0, 0.0, 0
	for _, a := range sorted {
		sum += a.Tokens
		for a.At-sorted[first].At >= window {
			sum -= sorted[first].Tokens
			first++
		}
		worst = max(worst, sum)
	}
	return worst / limit.Allowed(window)
}

// Over returns the tokens above the limit in the worst of all windows of any length. That is how far below zero a
// token bucket falls which is full before the first arrival. It is zero if the limit held. It counts single
// milliseconds: an arrival one millisecond early at 100/s is a tenth of a token.
func Over(arrivals []Arrival, limit Limit) float64 {
	level, lowest := limit.Burst, 0.0
	var before time.Duration
	for i, a := range Sorted(arrivals) {
		if i > 0 {
			level = min(limit.Burst, level+limit.Rate*(a.At-before).Seconds())
		}
		before = a.At
		level -= a.Tokens
		lowest = min(lowest, level)
	}
	return -lowest
}
