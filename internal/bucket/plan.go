package bucket

import "time"

// Ask is what a waiting task needs of a bucket.
type Ask struct {
	Tokens map[string]float64
	Urgent bool
}

// Plan says when each of the tasks could start, in their order, if nothing else takes tokens: moments on the store's
// clock that never decrease. It is pure. The first moment after until is the last one of the answer, so the answer may
// be shorter than asks. The dispatcher plans the promoted tasks first, then the head of the waitlist. A zero Bucket
// starts everything at now.
//
// Plan needs only the meters that the bucket has, not the limit, so any process can plan for any bucket. A meter that
// the bucket lacks does not delay a task.
func (b Bucket) Plan(now time.Time, asks []Ask, until time.Time) []time.Time {
	l := b.limit()
	if !b.At.IsZero() {
		b = b.Accrue(l, now)
	}
	starts := make([]time.Time, 0, len(asks))
	for _, a := range asks {
		n := l.Vector(a.Tokens)
		w := b.wait(Balance.started, n, a.Urgent)
		at := Later(now, b.At).Add(w)
		starts = append(starts, at)
		if at.After(until) {
			break
		}
		if !b.At.IsZero() {
			b = b.Accrue(l, b.At.Add(w))
		}
		for k := range n {
			b.Meters[k] = b.Meters[k].planned(n[k], at)
		}
		b.space(at)
	}
	return starts
}

// planned is the balance after a start at a moment, of which no more is known.
func (s Balance) planned(n float64, at time.Time) Balance {
	if s.Filling.InFlight {
		return s.lease(Taken{Until: at.Add(MaxWait), Tokens: n})
	}
	s.Started -= n
	return s
}

// Expect says when tokens in all could have started: the tokens of the tasks ahead and a task's own. It is an estimate
// for people and for the queue's net, exact where nothing else takes tokens or gives any back. Capacities do not matter
// to it. The zero time means that no time is known: calls in flight have to end first.
func (b Bucket) Expect(now time.Time, tokens map[string]float64) time.Time {
	if b.At.IsZero() {
		return now
	}
	b = b.Accrue(b.limit(), now)
	w := max(0, b.Blocked.Sub(b.At))
	for _, m := range b.Meters {
		x := tokens[m.Name] + m.Filling.Headroom - m.Started
		if m.Filling.InFlight && x > nearlyNone {
			return time.Time{}
		}
		w = max(w, b.Until(m, x))
	}
	return b.At.Add(w)
}

// limit is a limit whose meters fill as the bucket's meters do at present.
func (b Bucket) limit() (l Limit) {
	for _, s := range b.Meters {
		f := s.Filling
		f.Least, f.Most, f.Ramp = 0, 0, 0
		l.Meters = append(l.Meters, Meter{Name: s.Name, Filling: f})
	}
	return l
}
