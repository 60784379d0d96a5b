package bucket

import (
	"encoding/json"
	"slices"
	"time"
)

const (
	// LeaseLasts is how long a call may go on after its lease was last renewed. Its own machine counts from before the
	// renewal was sent.
	LeaseLasts = 20 * time.Second
	// LeaseKept is how long the bucket keeps the slots: for the call to end, for a decision by a store's clock that is a
	// little behind, and for clocks that drift, it is longer.
	LeaseKept = LeaseLasts + 5*time.Second
	// leaseStep is how exactly a bucket remembers when leases end: a lease lasts until the next multiple.
	leaseStep = time.Second
)

// Leases are the leases of a meter, by their ends. Their JSON form has one entry for each end.
type Leases []Taken

// MarshalJSON implements json.Marshaler.
func (ls Leases) MarshalJSON() ([]byte, error) {
	ends := []Taken{}
	for _, l := range ls {
		if n := len(ends); n > 0 && ends[n-1].Until.Equal(l.Until) {
			ends[n-1].Tokens += l.Tokens
		} else {
			ends = append(ends, l)
		}
	}
	return json.Marshal(ends)
}

// counted is a meter of calls in flight whose balances are what no lease has. Below zero, more run than a lowered
// capacity allows.
func (s Balance) counted() Balance {
	s.Started = s.Filling.Capacity
	for _, l := range s.Leased {
		s.Started -= l.Tokens
	}
	s.Reserved = s.Started
	return s
}

// InFlight says whether a meter counts calls in flight.
func (b Bucket) InFlight() bool {
	return slices.ContainsFunc(b.Meters, func(s Balance) bool { return s.Filling.InFlight })
}

// countLeases makes the balances of meters of calls in flight what no lease has, whatever a request made of them.
func (b *Bucket) countLeases() {
	for k, s := range b.Meters {
		if s.Filling.InFlight {
			b.Meters[k] = s.counted()
		}
	}
}

// filledInFlight is filled for a meter of calls in flight: leases that have ended are forgotten.
func (s Balance) filledInFlight(f Filling, to time.Time) Balance {
	s.Filling, s.Held, s.Leased = f, nil, notEnded(s.Leased, to)
	return s.counted()
}

// lease returns s with one more lease.
func (s Balance) lease(l Taken) Balance {
	if l.Tokens <= 0 {
		return s
	}
	after := slices.IndexFunc(s.Leased, func(o Taken) bool { return o.Until.After(l.Until) })
	if after < 0 {
		after = len(s.Leased)
	}
	s.Leased = slices.Concat(s.Leased[:after], Leases{l}, s.Leased[after:])
	return s.counted()
}

// unlease returns s without a lease, and the lease.
func (s Balance) unlease(id int64) (Balance, Taken, bool) {
	i := slices.IndexFunc(s.Leased, func(l Taken) bool { return l.ID == id })
	if i < 0 || id == 0 {
		return s, Taken{}, false
	}
	l := s.Leased[i]
	if s.Leased = slices.Concat(s.Leased[:i], s.Leased[i+1:]); len(s.Leased) == 0 {
		s.Leased = nil
	}
	return s.counted(), l, true
}

// leaseEnd is the end of a lease that is taken or renewed now for d.
func (b *Bucket) leaseEnd(d time.Duration) time.Time {
	return roundUp(b.At.Add(max(0, d)), leaseStep)
}

// endLease ends the lease of an ID, also in meters that the limit lacks. It does nothing where there is none.
func (b *Bucket) endLease(id int64) {
	for k, s := range b.Meters {
		b.Meters[k], _, _ = s.unlease(id)
	}
}

// renew has a lease last for d from now, unless it lasts longer already. A lease that is not there any more is lost.
func (b *Bucket) renew(id int64, d time.Duration) Answer {
	o := Answer{State: StateRefused}
	for k, s := range b.Meters {
		if rest, l, ok := s.unlease(id); ok {
			l.Until = Later(l.Until, b.leaseEnd(d))
			b.Meters[k], o.State = rest.lease(l), StateSettled
		}
	}
	return o
}

// untilEnded is how long after At x slots are free if no call ends and no lease is renewed: when the leases end that
// hold them, or all leases where that is not enough. Both may happen, so no task may hold for a slot.
func (b *Bucket) untilEnded(s Balance, x float64) time.Duration {
	if x <= nearlyNone {
		return 0
	}
	w := Hold + time.Millisecond
	for _, l := range s.Leased {
		w = max(w, l.Until.Sub(b.At))
		if x -= l.Tokens; x <= nearlyNone {
			break
		}
	}
	return w
}

// sameLeases says whether the leases of two balances are the same.
func (s Balance) sameLeases(other Balance) bool {
	return slices.EqualFunc(s.Leased, other.Leased, func(a, b Taken) bool {
		return a.ID == b.ID && a.Tokens == b.Tokens && a.Until.Equal(b.Until)
	})
}
