package reservations

import "time"

// Ask is what a waiting task needs of a bucket.
type Ask struct {
	Tokens Tokens
	Urgent bool
}

// Plan says when each of the tasks could start, in their order, if nothing else takes tokens: moments on the store's clock that
// never decrease. It is pure. The first moment after until is the last one of the answer, so the answer may be shorter than asks.
// The dispatcher plans the promoted tasks first, then the head of the waitlist. A zero Bucket starts everything at now.
//
// Plan asks only for meters that the bucket has: the limit itself is not needed, so any process can plan for any bucket.
func (b Bucket) Plan(now time.Time, asks []Ask, until time.Time) []time.Time {
	var l Limit
	for _, m := range b.Meters {
		l.Meters = append(l.Meters, m.meter())
	}
	if !b.At.IsZero() {
		b = b.accrue(l, now)
	}
	starts := make([]time.Time, 0, len(asks))
	for _, a := range asks {
		n := a.Tokens.vector(l)
		w := b.wait(Balance.started, n, a.Urgent)
		at := later(now, b.At).Add(w)
		starts = append(starts, at)
		if at.After(until) {
			break
		}
		if !b.At.IsZero() {
			b = b.accrue(l, b.At.Add(w))
		}
		for k := range n {
			b.Meters[k].Started -= n[k]
		}
	}
	return starts
}

// meter is a meter that fills as the balance does.
func (s Balance) meter() Meter {
	f := s.Filling
	m := Meter{Name: s.Name, Rate: f.Rate, Period: time.Second, Capacity: f.Capacity, Headroom: f.Headroom, MaxReserved: Unlimited}
	if f.windowed() {
		m.Kind, m.Period, m.Start = KindWindow, f.Period, f.Offset
	}
	return m
}

// Expect says when so many tokens in all could have started: those of the tasks ahead and a task's own. It is an estimate for people
// and for the queue's net, exact where nothing else takes tokens or gives any back. Capacities do not matter to it.
func (b Bucket) Expect(now time.Time, tokens Tokens) time.Time {
	var l Limit
	for _, m := range b.Meters {
		l.Meters = append(l.Meters, m.meter())
	}
	if b.At.IsZero() {
		return now
	}
	b = b.accrue(l, now)
	w := max(0, b.Blocked.Sub(b.At))
	for _, m := range b.Meters {
		w = max(w, m.Filling.until(b.At, tokens[m.Name]+m.Filling.Headroom-m.Started))
	}
	return b.At.Add(w)
}

// Follows says whether the bucket's meters fill as those of the limit do. Where not, Limiter.Refresh makes the bucket follow.
func (b Bucket) Follows(l Limit) bool {
	if len(b.Meters) < len(l.Meters) {
		return b.At.IsZero()
	}
	for k, m := range l.Meters {
		if b.Meters[k].Name != m.Name || b.Meters[k].Filling != m.Filling() {
			return false
		}
	}
	return true
}
