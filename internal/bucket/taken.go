package bucket

import (
	"slices"
	"time"
)

// Taken are tokens that are taken until a moment: by tasks that hold, or as the slots of one call by its lease.
type Taken struct {
	// ID is that of the lease, and zero for holds. It is left out of the JSON form.
	ID int64 `json:"-" bson:"i,omitempty"`
	// Until is when the holds or the lease end on the store's clock: rounded up to 50 ms, and to a second.
	Until time.Time `json:"until" bson:"u"`
	// Tokens are what all tasks together hold until then, or the slots.
	Tokens float64 `json:"n" bson:"n"`
}

// notEnded returns what of all, in the order of the ends, has not ended at a moment; nil for nothing.
func notEnded(all []Taken, at time.Time) []Taken {
	i := slices.IndexFunc(all, func(t Taken) bool { return t.Until.After(at) })
	if i < 0 {
		return nil
	}
	return all[i:]
}

// moved is a copy of all that ends later by d.
func moved(all []Taken, d time.Duration) []Taken {
	all = slices.Clone(all)
	for i := range all {
		all[i].Until = all[i].Until.Add(d)
	}
	return all
}

// holdStep is how exactly a bucket remembers when holds end: a hold counts until the next multiple.
const holdStep = 50 * time.Millisecond

// roundUp is the next multiple of a step.
func roundUp(at time.Time, step time.Duration) time.Time { return at.Add(step - 1).Truncate(step) }

// HoldEnd is when the hold of a start ends, for its settlement: see Request.HoldEnd. Zero for a start without a hold.
func (a Answer) HoldEnd() time.Time {
	if a.Hold == 0 {
		return time.Time{}
	}
	return roundUp(a.At.Add(a.Hold), holdStep)
}

// hold returns s with n more tokens that hold until an end; a negative n holds no more.
func (s Balance) hold(n float64, end time.Time) Balance {
	var held []Taken
	for _, h := range s.Held {
		if h.Until.Equal(end) {
			n += h.Tokens
		} else {
			held = append(held, h)
		}
	}
	if n > nearlyNone {
		held = append(held, Taken{Until: end, Tokens: n})
		slices.SortFunc(held, func(a, b Taken) int { return a.Until.Compare(b.Until) })
	}
	s.Held = held
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
