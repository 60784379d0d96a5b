package bucket

import (
	"slices"
	"time"
)

// holdStep is how exactly a bucket remembers when holds end: a hold counts until the next multiple.
const holdStep = 50 * time.Millisecond

// Held are the tokens of started tasks that have not begun. A provider counts a call when it comes. Until then the
// provider's balance is above Started by these tokens, and what comes back above its capacity is lost. A refund must
// not bring that back here.
type Held struct {
	// Until is when the holds end, rounded up to 50 ms.
	Until time.Time
	// Tokens are the tokens of all tasks that hold until then.
	Tokens float64
}

// holdEnd is when a hold that ends at a moment counts no more.
func holdEnd(at time.Time) time.Time { return at.Add(holdStep - 1).Truncate(holdStep) }

// HoldEnd is when the hold of a start ends, for its settlement: see Request.HoldEnd. Zero for a start without a hold.
func (a Answer) HoldEnd() time.Time {
	if a.Hold <= atOnce {
		return time.Time{}
	}
	return holdEnd(a.At.Add(a.Hold))
}

// hold returns s with n more tokens that hold until an end; a negative n holds no more.
func (s Balance) hold(n float64, end time.Time) Balance {
	var held []Held
	for _, h := range s.Held {
		if h.Until.Equal(end) {
			n += h.Tokens
		} else {
			held = append(held, h)
		}
	}
	if n > nearlyNone {
		held = append(held, Held{Until: end, Tokens: n})
		slices.SortFunc(held, func(a, b Held) int { return a.Until.Compare(b.Until) })
	}
	s.Held = held
	return s
}

// endHolds returns s at a moment: holds that have ended are forgotten.
func (s Balance) endHolds(at time.Time) Balance {
	n := 0
	for n < len(s.Held) && !s.Held[n].Until.After(at) {
		n++
	}
	if s.Held = s.Held[n:]; len(s.Held) == 0 {
		s.Held = nil
	}
	return s
}

// moveHolds returns s with the ends of all holds moved by d.
func (s Balance) moveHolds(d time.Duration) Balance {
	s.Held = slices.Clone(s.Held)
	for i := range s.Held {
		s.Held[i].Until = s.Held[i].Until.Add(d)
	}
	return s
}

// refundable is how far a refund may raise Started: at the end of each hold, the provider's balance is at most its
// capacity.
func (b *Bucket) refundable(s Balance) float64 {
	most, held := s.Filling.Capacity, 0.
	for _, h := range slices.Backward(s.Held) {
		held += h.Tokens
		most = min(most, s.Filling.Capacity-b.comes(s.Filling, h.Until)-held)
	}
	return most
}
