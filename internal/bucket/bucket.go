// Package bucket is the arithmetic of a bucket, without clocks and stores: what a request makes of it, and what it
// answers. Package reservations describes the rules.
package bucket

import (
	"slices"
	"time"
)

const (
	// Hold is the longest that a started task waits in its worker. A start that is short of tokens by no more is
	// granted, and the task waits until its tokens have come back.
	Hold = 250 * time.Millisecond
	// LateMost is how much later than granted, and than typical, a call may start. Providers tolerate about as much
	// between requests that travel at different speeds.
	LateMost = 50 * time.Millisecond
	// backwards is how far the clock may run back before the bucket follows it. A smaller step is jitter between
	// servers and changes nothing.
	backwards = time.Minute
	// Tolerance is what rounding may take from a balance, in tokens.
	Tolerance = 1e-6
	// unusedMost is how many meters a bucket keeps that its limit lacks.
	unusedMost = 16
)

// Bucket is the state of one limit for one key. The zero Bucket has never been used and is full. A Bucket is a value:
// Step returns a changed copy. Its JSON form is what the dispatcher plans with; settlements and holds are left out
// there. Its BSON form is what stores keep.
type Bucket struct { //nolint:recvcheck // Step changes its own copy through pointers
	// At is the moment for which the balances are true, on the store's clock.
	At time.Time `json:"at" bson:"at"`
	// Generation distinguishes a bucket from an earlier one of the same name that was forgotten: the milliseconds since
	// 1970 of the first use.
	Generation int64 `json:"gen" bson:"gen"`
	// Version counts the changes of a generation.
	Version int64 `json:"v" bson:"v"`
	// Blocked is when the block in force ends; nothing starts before. A moment that is not after At blocks nothing.
	Blocked time.Time `json:"blocked,omitzero" bson:"blocked"`
	// Refused is what the provider refused since its last good answer. Nil means that nothing is known of a refusal.
	Refused *Refused `json:"refused,omitempty" bson:"refused"`
	// Meters are the meters of the last request's limit, in its order. Behind them are meters that this limit lacks,
	// until they are full.
	Meters []Balance `json:"meters" bson:"meters"`
	// Settled are the IDs of the last settlements, the oldest first. Forgot is when one was last dropped from there.
	Settled []int64   `json:"-" bson:"ids"`
	Forgot  time.Time `json:"-" bson:"forgot"`
	// Since, if not zero, says that the store may have lost what happened to the bucket before: a balance is at most what
	// has come back since. A store sets it in a bucket that it reads, and does not store it. The next Step clears it.
	Since time.Time `json:"-" bson:"-"`
}

// Balance is the state of one meter, in tokens. Both balances fill alike, up to the capacity.
type Balance struct {
	Name string `json:"name" bson:"n"`
	// Started is less what started. It alone decides whether a task may start, so at most capacity + rate*T tokens
	// start in any window of length T.
	Started float64 `json:"started" bson:"s"`
	// Reserved is less what started or is promised to waiting tasks. It is never above Started and says when a new task
	// may start.
	Reserved float64 `json:"reserved" bson:"r"`
	Filling  Filling `json:"filling" bson:",inline"`
	// Slowed is when a refusal, or a provider's balance, last lowered the rate of an adaptive meter.
	Slowed time.Time `json:"slowed,omitzero" bson:"slow,omitempty"`
	// Ceiling is the rate at which a call was last refused. Climb bounds how fast the rate of an adaptive meter climbs
	// near it, in tokens per second each second. Both are zero if no refused call had a known size.
	Ceiling float64 `json:"-" bson:"ceil,omitempty"`
	Climb   float64 `json:"-" bson:"climb,omitempty"`
	// Lowered is how much less is there because an OpSync took it. An unblock gives it back. It is at most what the
	// balance lacks: what is beyond that has come back.
	Lowered float64 `json:"-" bson:"low,omitempty"`
	// Held are the tokens of started tasks that have not begun, by the ends of their holds, the earliest first. A
	// provider counts a call when it comes. Until then the provider's balance is above Started by these tokens, and what
	// comes back above its capacity is lost. A refund must not bring that back here.
	Held []Taken `json:"-" bson:"held,omitempty"`
	// Peaks are how high Started was, the earliest and highest first. A later peak is lower, else it takes the place of
	// the earlier ones.
	Peaks []Peak `json:"-" bson:"peak,omitempty"`
	// Leased are the leases of calls in flight, the first to end first. Both balances are what they leave. A token bucket
	// and a window have none.
	Leased Leases `json:"leased,omitempty" bson:"leased,omitempty"`
}

// Newer says whether b is a later state of the bucket than other.
func (b Bucket) Newer(other Bucket) bool {
	if b.Generation != other.Generation {
		return b.Generation > other.Generation
	}
	return b.Version > other.Version
}

// Follows says whether the bucket's meters fill as the limit's meters do. If not, OpRefresh makes the bucket follow.
func (b Bucket) Follows(l Limit) bool {
	if len(b.Meters) < len(l.Meters) {
		return b.At.IsZero()
	}
	for k, m := range l.Meters {
		if b.Meters[k].Name != m.Name || b.Meters[k].Filling.rule() != m.Filling {
			return false
		}
	}
	return true
}

// FullAt is when every balance is at its capacity and no block is left, if nothing else happens.
func (b Bucket) FullAt() time.Time {
	full := Later(b.At, b.Blocked)
	for _, m := range b.Meters {
		full = Later(full, b.At.Add(b.Until(m, m.Filling.Capacity-m.Reserved)))
	}
	return full
}

// Accrue returns the bucket as it is at now, with the meters of the limit first. A clock that runs back changes
// nothing. A clock that runs back by more than a minute is followed, and nothing is filled for that step.
func (b Bucket) Accrue(l Limit, now time.Time) Bucket {
	if b.At.IsZero() {
		b = Bucket{At: now, Generation: now.UnixMilli(), Since: b.Since}
		for _, m := range l.Meters {
			b.Meters = append(b.Meters, m.newBalance(now))
		}
		return b.lost()
	}
	if !b.Blocked.After(b.At) {
		b.Blocked = time.Time{}
	}
	if ahead := b.At.Sub(now); ahead > backwards {
		b = b.back(ahead)
	}
	was := b
	b.At = Later(b.At, now)
	b.Refused = b.Refused.at(b.At)
	b.Meters = make([]Balance, 0, max(len(was.Meters), len(l.Meters)))
	for _, m := range l.Meters {
		if i := slices.IndexFunc(was.Meters, func(s Balance) bool { return s.Name == m.Name }); i >= 0 {
			b.Meters = append(b.Meters, was.filled(was.Meters[i], m.Filling, b.At))
		} else {
			b.Meters = append(b.Meters, m.newBalance(b.At))
		}
	}
	for _, s := range was.Meters {
		if len(b.Meters) < len(l.Meters)+unusedMost && l.meter(s.Name) < 0 {
			if s = was.filled(s, s.Filling, b.At); s.Reserved < s.Filling.Capacity {
				b.Meters = append(b.Meters, s)
			}
		}
	}
	return b.lost()
}

// back is the bucket on a clock that ran back by d: the block, the holds and the leases last as long as before.
func (b Bucket) back(d time.Duration) Bucket {
	b.At = b.At.Add(-d)
	if !b.Blocked.IsZero() {
		b.Blocked = b.Blocked.Add(-d)
	}
	b.Refused = b.Refused.moved(-d)
	b.Meters = slices.Clone(b.Meters)
	for k, s := range b.Meters {
		if !s.Slowed.IsZero() {
			s.Slowed = s.Slowed.Add(-d)
		}
		s.Held, s.Leased, s.Peaks = moved(s.Held, -d), moved(s.Leased, -d), s.peaksMoved(-d)
		b.Meters[k] = s
	}
	return b
}

func (m Meter) newBalance(now time.Time) Balance {
	full := m.Filling.Capacity
	if m.Filling.windowed() { // before the first window, the balance lacks what comes back until then
		full -= m.Filling.passed(now, m.First)
	}
	return Balance{Name: m.Name, Started: full, Reserved: full, Filling: m.Filling}
}

// filled is the balance s at a later moment, from which on it fills by f. If f is another filling than before, it is
// not known when the limit changed: the lower of both rates and the lower of both capacities count.
func (b Bucket) filled(s Balance, f Filling, to time.Time) Balance {
	if f.InFlight {
		return s.filledInFlight(f, to)
	}
	f = f.from(s.Filling)
	came := b.comes(s.Filling, to)
	if f != s.Filling {
		came = min(came, b.comes(f, to))
	}
	adapted := b.adapted(s, f, to)
	s.Started = min(f.Capacity, s.Filling.Capacity, s.Started+came)
	s.Reserved = min(s.Started, s.Reserved+came)
	s.Lowered = max(0, min(s.Lowered, f.Capacity-s.Started))
	if was := s.Filling.Capacity; f.Capacity != was {
		s = s.peaked(to, min(f.Capacity, was)-s.Started)
	}
	s.Filling, s.Leased = adapted, nil // only a document that was changed by hand has leases here
	s.Held = notEnded(s.Held, to)
	return s
}

// comes is how many tokens come back from At until a moment. A token bucket does not fill during a block; windows end
// as ever.
func (b *Bucket) comes(f Filling, to time.Time) float64 {
	if f.windowed() {
		return f.passed(b.At, to)
	}
	return f.passed(Later(b.At, b.Blocked), to)
}

// Until is how long after At x tokens have come back to a balance. Never negative.
func (b *Bucket) Until(s Balance, x float64) time.Duration {
	f, from := s.Filling, b.At
	if f.InFlight {
		return b.untilEnded(s, x)
	}
	if x > nearlyNone && !f.windowed() {
		from = Later(b.At, b.Blocked)
	}
	return min(MaxWait, from.Sub(b.At)+f.until(from, x))
}

func (s Balance) started() float64  { return s.Started }
func (s Balance) reserved() float64 { return s.Reserved }

// wait is how long it takes until a balance has room for n in every meter and no block is left. A charge above the
// capacity needs a full bucket. Ordinary charges leave the headroom.
func (b *Bucket) wait(balance func(Balance) float64, n []float64, urgent bool) time.Duration {
	w := max(0, b.Blocked.Sub(b.At))
	for k, tokens := range n {
		s := b.Meters[k]
		if !urgent {
			tokens += s.Filling.Headroom
		}
		w = max(w, b.Until(s, min(tokens, s.Filling.Capacity)-balance(s)))
	}
	return w
}

// Later is the later of two moments.
func Later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// lostLease is the ID of the lease that stands for all leases that a store may have lost. No call has it.
const lostLease = -1

// Forgotten is for how long after At calls may still run that the store has forgotten: their slots count as taken.
func (b Bucket) Forgotten() (left time.Duration) {
	for _, s := range b.Meters {
		for _, l := range s.Leased {
			if l.ID == lostLease {
				left = max(left, l.Until.Sub(b.At))
			}
		}
	}
	return left
}

// lost is the bucket without what may have been taken before Since, which is all that was there then. Tasks that were
// started before may hold for a while, and calls may run until their leases end. A settlement that was first sent
// before may have counted. B owns its meters.
func (b Bucket) lost() Bucket {
	if b.Since.IsZero() {
		return b
	}
	held := b.Since.Add(Hold)
	ended := roundUp(b.Since.Add(LeaseKept), leaseStep)
	for k, s := range b.Meters {
		switch {
		case s.Filling.InFlight && ended.After(b.At):
			s = s.lease(Taken{ID: lostLease, Until: ended, Tokens: s.Filling.Capacity})
		case !s.Filling.InFlight:
			s.Started = min(s.Started, s.Filling.passed(held, b.At)-s.Filling.passed(b.At, held))
			s.Reserved = min(s.Reserved, s.Started)
			s = s.peaked(b.Since, 0)
			if held.After(b.At) {
				s = s.hold(s.Filling.Capacity, held)
			}
		}
		b.Meters[k] = s
	}
	b.Forgot, b.Since = Later(b.Forgot, b.Since), time.Time{}
	return b
}
