package measure

import "time"

// Share is the part of the limit that was used: the tokens of all arrivals over what the limit allowed from the first arrival to
// the last, which is Burst + Rate * Span. A bucket that is full at the first call and never idle gives 1. For less than two
// arrivals it is 0. What was not done when a run was cut off is not seen here: give ShareUntil the time of the cut.
func Share(arrivals []Arrival, limit Limit) float64 {
	return share(arrivals, limit, Span(arrivals))
}

// ShareUntil is Share from the first arrival until end, for a run that was cut off with work left. An end before the last arrival counts
// as the last arrival.
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

// Worst is the fullest window of that length, as a part of what the limit allows in it. Above 1 the limit was broken. Windows begin at
// an arrival and do not contain their end.
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

// Over is by how many tokens the worst of all windows, whatever its length, is above what the limit allows: how far below zero a token
// bucket falls that is full before the first arrival. Zero where the limit held. It sees single milliseconds: an arrival that is one
// millisecond early at 100/s is a tenth of a token.
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
