package reservations

import (
	"slices"
	"time"
)

// The ledgers of a meter, in the order in which a charge passes them: no ledger is ever above the one before it.
const (
	LedgerUse   = iota // less what started: the limit itself
	LedgerLate         // less what came at its time and found no room
	LedgerPlan         // less what was given a time; not below -max_reserved
	LedgerAgain        // less returning tickets that the plan refused
	LedgerLine         // less tickets: places behind max_reserved
	LedgerCount
)

const (
	// Hold is the longest that a started task waits locally: whoever is short by no more takes a small deficit and waits.
	Hold = 250 * time.Millisecond
	// backwards is how far the clock may run back before the bucket follows it. Less is taken for jitter between servers and
	// changes nothing; more would leave the bucket standing still for that long.
	backwards = time.Minute
	// ticketDelay is added to the time at which a ticket would be accepted, so that it does not come a hair too early.
	ticketDelay = 0.05
	// hardly is how many tokens a debt has that counts as none where something is divided by it.
	hardly = 1e-9
	// tolerance is what rounding may take from max_reserved, in tokens, and from the end of a line, in seconds.
	tolerance = 1e-6
)

// Bucket is the state of one limit for one key. The zero Bucket has never been used and is full. A Bucket is a value that
// Step never changes in place; stores keep it and give it back.
type Bucket struct { //nolint:recvcheck // Step changes its own copy through a pointer; everybody else has a value
	// At is the moment for which the ledgers are true, on the store's clock.
	At time.Time
	// Shift is the clock of those who wait, in seconds ahead of the store's clock, at the moment At.
	Shift float64
	// Speed is how fast that clock runs, in its seconds a second. Zero means 1.
	Speed float64
	// Carry is what settlements could not move yet because a meter had no room, in seconds, at most Hold.
	Carry float64
	// Blocked is for how long from At on nothing starts, in seconds.
	Blocked float64
	// Generation and Version are those of Outcome.
	Generation, Version int64
	// Meters are those of the limit that the bucket was last used with. A meter that is missing here and in Idle is full.
	Meters []MeterState
	// Idle are meters that this limit lacks, of those it was used with before.
	Idle []IdleMeter
	// Keep is when those that are idle will be full at the latest: the bucket must not be forgotten before. Zero where none is idle.
	Keep time.Time
	// Express is the ledger of urgent tasks, in tokens by meter. Empty where no limit with headroom has used the bucket since its meters changed: then
	// express is as LedgerUse.
	Express []float64
	// Owed is what the line still counts on and will not find, in tokens by meter: what a full bucket lost while those who have a time were on their way, less
	// what no plan counted on; or, where the limit has headroom, what urgent tasks took. Empty where it is not known.
	Owed []float64
	// ExpressShift is the clock of urgent tasks that wait, as Shift is of the others. Its speed is 1.
	ExpressShift float64
	// Settled are the IDs of the last settlements, the eldest first, and Forgot is when one was last dropped from there.
	Settled []int64
	Forgot  time.Time
}

// MeterState is the balance of each ledger of one meter, in tokens, and how it fills.
type MeterState struct {
	Name    string
	Ledgers [LedgerCount]float64
	Filling Filling
	// Gap is which part of the line's debt nobody asked for: where another meter is scarcer, it only keeps the places in time. From 0 to 1.
	Gap float64
}

// asked is which part of the line's debt was asked for, in tokens.
func (s *MeterState) asked() float64 { return (1 - s.Gap) * max(0, -s.Ledgers[LedgerLine]) }

// setGap is told how much of the line's debt was asked for.
func (s *MeterState) setGap(asked float64) {
	s.Gap = 0
	if line := -s.Ledgers[LedgerLine]; line > hardly {
		s.Gap = max(0, 1-asked/line)
	}
}

// IdleMeter is a meter that the limit lacks. It is filled up to the moment At.
type IdleMeter struct {
	MeterState

	At time.Time
}

// FullAt is when every ledger will be at its capacity again, and no block left, if nothing else happens: from then on the bucket can be
// forgotten. The limit is that of the last Step.
func (b Bucket) FullAt(l Limit) time.Time {
	full := b.Blocked
	for _, m := range l.Meters {
		if k := slices.IndexFunc(b.Meters, func(s MeterState) bool { return s.Name == m.Name }); k >= 0 {
			full = max(full, m.until(b.At, m.Cap()-b.Meters[k].Ledgers[LedgerLine])) // the last ledger is the lowest
		}
	}
	return later(b.Keep, b.At.Add(seconds(max(full, b.expressFull(l)))))
}

// filledAt is FullAt for the limit that the bucket was last used with.
func (b *Bucket) filledAt() time.Time {
	var l Limit
	for _, s := range b.Meters {
		if s.Filling.Rate > 0 {
			m := s.Filling.meter()
			m.Name = s.Name
			l.Meters = append(l.Meters, m)
		}
	}
	return b.FullAt(l)
}

// accrue returns the bucket as it is at now: every ledger filled at its rate. Time that runs back changes nothing, and by
// more than backwards is followed without filling anything.
func (b Bucket) accrue(l Limit, now time.Time) Bucket {
	if b.Speed == 0 {
		b.Speed = 1
	}
	if b.At.IsZero() {
		b.At, b.Generation = now, now.UnixMilli()
		b.Meters, b.Owed = make([]MeterState, len(l.Meters)), make([]float64, len(l.Meters))
		for k, m := range l.Meters {
			b.Meters[k] = newState(m, now)
		}
		return b
	}
	fits, full := b.fits(l), time.Time{}
	if !fits {
		full = b.filledAt()
	}
	from, passed := b.At, now.Sub(b.At)
	if passed < -backwards { // follow the clock, and the clock of the line with it: those who wait keep their time to wait
		b.Shift -= passed.Seconds()
		b.At = now
	}
	if passed > 0 {
		b.At = now
		b.Blocked = max(0, b.Blocked-passed.Seconds())
		b.Shift += passed.Seconds() * (b.Speed - 1)
	}
	if !fits {
		b.change(l, from)
		if b.Keep = later(b.Keep, full); len(b.Idle) == 0 {
			b.Keep = time.Time{}
		}
		return b
	}
	if !l.HasHeadroom() {
		b.Owed = b.overflow(l, from, now)
	}
	b.Meters = slices.Clone(b.Meters)
	if passed > 0 {
		for k, m := range l.Meters {
			came := m.passed(from, now)
			for i, balance := range b.Meters[k].Ledgers {
				b.Meters[k].Ledgers[i] = min(m.Cap(), balance+came)
			}
		}
		if b.Speed != 1 && !b.waiting() {
			b.Speed = 1
		}
	}
	return b
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// wait is how many seconds pass until ledger i has room for n in every meter and no block is left: tokens that come back
// during a block do not end it. Above the capacity a full bucket is enough. The headroom stays for urgent tasks.
func (b Bucket) wait(l Limit, i int, n []float64) float64 {
	w := b.Blocked
	for k, m := range l.Meters {
		w = max(w, m.until(b.At, min(n[k]+m.Headroom, m.Cap())-b.Meters[k].Ledgers[i]))
	}
	return w
}

// charged is ledger i of meter k after a charge of n that starts in w seconds: what accrues until then beyond the capacity is lost.
// But a promise that only waits for this meter's own window takes what it leaves of those before along, as Convex does.
func (b Bucket) charged(m Meter, k, i int, n, w float64) float64 {
	balance, gain := b.Meters[k].Ledgers[i], m.gain(b.At, w)
	if m.windowed() && i >= LedgerPlan && gain <= m.Rate*m.windows(min(n, m.Cap())-balance) {
		return balance - n
	}
	return min(balance, m.Cap()-gain) - n
}

// charge takes n from the ledgers first..last.
func (b Bucket) charge(l Limit, first, last int, n []float64, w float64) {
	if first == LedgerPlan { // what it knows to be lost
		b.owes(l, func(k int, m Meter) float64 { return min(0, m.Cap()-m.gain(b.At, w)-b.Meters[k].Ledgers[LedgerPlan]) })
	}
	for k, m := range l.Meters {
		for i := first; i <= last; i++ {
			b.Meters[k].Ledgers[i] = b.charged(m, k, i, n[k], w)
		}
	}
	b.order()
}

// place is charge for a newcomer that is given a place, from ledger first to the line.
func (b Bucket) place(l Limit, first int, n []float64, w float64) {
	for k := range b.Meters {
		b.Meters[k].Gap = b.Meters[k].asked() // for the time of the charge
	}
	b.charge(l, first, LedgerLine, n, w)
	for k := range b.Meters {
		s := &b.Meters[k]
		s.setGap(s.Gap + n[k])
	}
}

// order keeps every ledger at or below the one before it.
func (b Bucket) order() {
	for k := range b.Meters {
		for i := 1; i < LedgerCount; i++ {
			b.Meters[k].Ledgers[i] = min(b.Meters[k].Ledgers[i], b.Meters[k].Ledgers[i-1])
		}
	}
}

// within says whether ledger i may take n that starts in w seconds: no meter goes below -max_reserved, less slacks times its slack.
func (b Bucket) within(l Limit, i int, n []float64, w, slacks float64) bool {
	for k, m := range l.Meters {
		if m.MaxReserved != Unlimited && m.Headroom-b.charged(m, k, i, n[k], w) > m.MaxReserved-slacks*m.Slack()+tolerance {
			return false
		}
	}
	return true
}

// back is how many seconds pass until ledger i, already charged, is within max_reserved again.
func (b Bucket) back(l Limit, i int, slacks float64) float64 {
	w := 0.
	for k, m := range l.Meters {
		if m.MaxReserved != Unlimited {
			w = max(w, m.until(b.At, m.Headroom-(m.MaxReserved-slacks*m.Slack())-b.Meters[k].Ledgers[i]))
		}
	}
	return w
}

// waiting says whether anybody stands in the line.
func (b Bucket) waiting() bool {
	return slices.ContainsFunc(b.Meters, func(s MeterState) bool { return s.Ledgers[LedgerLine] < 0 })
}

// seconds converts, bounded by MaxWait so that no sum with a time can overflow.
func seconds(s float64) time.Duration {
	const bound = float64(MaxWait / time.Second)
	return time.Duration(min(max(s, -bound), bound) * float64(time.Second))
}
