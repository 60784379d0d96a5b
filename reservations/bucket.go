package reservations

import (
	"slices"
	"time"
)

const (
	// Hold is the longest that a started task waits in its worker. A task that is short by no more starts, and holds until its tokens
	// have come back.
	Hold = 250 * time.Millisecond
	// backwards is how far the clock may run back before the bucket follows it. Less is jitter between servers and changes nothing.
	backwards = time.Minute
	// tolerance is what rounding may take from a balance, in tokens.
	tolerance = 1e-6
	// unusedMost is how many meters a bucket keeps that its limit lacks.
	unusedMost = 16
)

// Bucket is the state of one limit for one key. The zero Bucket has never been used and is full. A Bucket is a value: Step
// returns a changed copy. Its JSON form is what the scheduler's dispatcher plans with; settlements are left out there.
type Bucket struct {
	// At is the moment for which the balances are true, on the store's clock.
	At time.Time `json:"at"`
	// Generation tells apart buckets of one name that were forgotten between: the milliseconds since 1970 of the first use.
	Generation int64 `json:"gen"`
	// Version counts the changes of a generation.
	Version int64 `json:"v"`
	// Blocked is when the block in force ends: nothing starts before. A moment that is not after At blocks nothing.
	Blocked time.Time `json:"blocked,omitzero"`
	// Meters are those of the limit that the bucket was last used with, in its order. Behind them stand meters that this limit lacks,
	// until they are full.
	Meters []Balance `json:"meters"`
	// Settled are the IDs of the last settlements, the oldest first. Forgot is when one was last dropped from there.
	Settled []int64   `json:"-"`
	Forgot  time.Time `json:"-"`
}

// Balance is the state of one meter, in tokens. Both balances fill alike, up to the capacity.
type Balance struct {
	Name string `json:"name"`
	// Started is less what started. It alone decides whether a task may start, so at most capacity + rate*T tokens start in any
	// window of length T.
	Started float64 `json:"started"`
	// Reserved is less what started or is promised to waiting tasks. It is never above Started and says when a new task may start.
	Reserved float64 `json:"reserved"`
	Filling  Filling `json:"filling"`
}

// Newer says whether b is a later state of the bucket than other.
func (b Bucket) Newer(other Bucket) bool {
	if b.Generation != other.Generation {
		return b.Generation > other.Generation
	}
	return b.Version > other.Version
}

// FullAt is when every balance is at its capacity and no block is left, if nothing else happens. From then on the bucket may be
// forgotten.
func (b Bucket) FullAt() time.Time {
	full := later(b.At, b.Blocked)
	for _, m := range b.Meters {
		full = later(full, b.At.Add(m.Filling.until(b.At, m.Filling.Capacity-m.Reserved)))
	}
	return full
}

// accrue returns the bucket as it is at now, with the meters of the limit first. A clock that runs back changes nothing. A clock
// that runs back by more than a minute is followed, and nothing is filled for that step.
func (b Bucket) accrue(l Limit, now time.Time) Bucket {
	if b.At.IsZero() {
		b = Bucket{At: now, Generation: now.UnixMilli()}
		for _, m := range l.Meters {
			b.Meters = append(b.Meters, m.newBalance(now))
		}
		return b
	}
	from := b.At
	if passed := now.Sub(from); passed > 0 || passed < -backwards {
		b.At = now
		if passed < 0 && b.Blocked.After(from) {
			b.Blocked = b.Blocked.Add(passed)
		}
	}
	was := b.Meters
	b.Meters = make([]Balance, 0, max(len(was), len(l.Meters)))
	for k, m := range l.Meters {
		i := k
		if k >= len(was) || was[k].Name != m.Name {
			i = slices.IndexFunc(was, func(s Balance) bool { return s.Name == m.Name })
		}
		if i < 0 {
			b.Meters = append(b.Meters, m.newBalance(b.At))
		} else {
			b.Meters = append(b.Meters, was[i].filled(m.Filling(), from, b.At))
		}
	}
	for _, s := range was {
		if len(b.Meters) < len(l.Meters)+unusedMost && l.meter(s.Name) < 0 {
			if s = s.filled(s.Filling, from, b.At); s.Reserved < s.Filling.Capacity {
				b.Meters = append(b.Meters, s)
			}
		}
	}
	return b
}

func (m Meter) newBalance(now time.Time) Balance {
	full := m.full(now)
	return Balance{Name: m.Name, Started: full, Reserved: full, Filling: m.Filling()}
}

// filled is the balance after the time between two moments. Where the meter fills in another way from now on, nobody knows since
// when: the lower rate and the lower capacity count for that time.
func (s Balance) filled(f Filling, from, to time.Time) Balance {
	came := s.Filling.passed(from, to)
	if f != s.Filling {
		came = min(came, f.passed(from, to))
	}
	s.Started = min(f.Capacity, s.Filling.Capacity, s.Started+came)
	s.Reserved = min(s.Started, s.Reserved+came)
	s.Filling = f
	return s
}

func (s Balance) started() float64  { return s.Started }
func (s Balance) reserved() float64 { return s.Reserved }

// wait is how long it takes until a balance has room for n in every meter and no block is left. A charge above the capacity needs
// a full bucket. The headroom is kept for urgent tasks.
func (b *Bucket) wait(balance func(Balance) float64, n []float64, urgent bool) time.Duration {
	w := max(0, b.Blocked.Sub(b.At))
	for k, tokens := range n {
		f := b.Meters[k].Filling
		if !urgent {
			tokens += f.Headroom
		}
		w = max(w, f.until(b.At, min(tokens, f.Capacity)-balance(b.Meters[k])))
	}
	return w
}

// afterStart is the balance x of the meter after a start of n in w: what comes back until then above the capacity is lost.
func (b *Bucket) afterStart(k int, x, n float64, w time.Duration) float64 {
	f := b.Meters[k].Filling
	return min(x, f.Capacity-f.passed(b.At, b.At.Add(w))) - n
}

// afterPromise is afterStart for the reserved balance. A promise takes what a window leaves along into the next one, as Convex
// does: the started balance is exact.
func (b *Bucket) afterPromise(k int, n float64, w time.Duration) float64 {
	if b.Meters[k].Filling.windowed() {
		return b.Meters[k].Reserved - n
	}
	return b.afterStart(k, b.Meters[k].Reserved, n, w)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// seconds converts, bounded by MaxWait so that no sum with a time overflows.
func seconds(s float64) time.Duration {
	const bound = float64(MaxWait / time.Second)
	return time.Duration(min(max(s, -bound), bound) * float64(time.Second))
}
