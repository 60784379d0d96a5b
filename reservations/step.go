package reservations

import (
	"slices"
	"time"
)

// Op is what a Request asks of a bucket.
type Op string

const (
	// OpStart starts a task within Request.Hold. A new task that can't start reserves, see OpReserve; a promoted one only gets
	// the time at which it could start.
	OpStart Op = "start"
	// OpReserve promises tokens to a task that will wait, as far as max_reserved and max_wait allow.
	OpReserve Op = "reserve"
	// OpAllow starts a new task at once or not at all: it neither holds nor reserves.
	OpAllow Op = "allow"
	// OpSettle gives Tokens back to both balances; negative ones are taken.
	OpSettle Op = "settle"
	// OpRelease gives a reservation back that is not needed: Tokens, to the reserved balance.
	OpRelease Op = "release"
	// OpBlock lets nothing start for a time.
	OpBlock Op = "block"
	// OpUnblock ends the block in force.
	OpUnblock Op = "unblock"
	// OpSync corrects the bucket by what its provider says is left.
	OpSync Op = "sync"
	// OpRefresh makes the bucket follow a changed limit, and changes nothing else.
	OpRefresh Op = "refresh"
)

// atOnce is a wait that counts as none: rounding must not refuse a task that comes back at the very time it was given.
const atOnce = 10 * time.Nanosecond

// Request is one thing asked of a bucket.
type Request struct {
	Op Op
	// Tokens are in the order of the limit's meters: the charge, for OpSettle what is given back, for OpSync what is left, where a
	// negative number means not known. Nil for OpBlock, OpUnblock and OpRefresh.
	Tokens []float64
	// Promoted says that the task has waited its turn (OpStart): only the started balance counts.
	Promoted bool
	// Reserved says that the task holds a reservation: an OpStart is charged to the started balance alone, and an OpSettle that gives
	// an unused start back leaves the reservation.
	Reserved bool
	// Urgent lets the task use the headroom of the limit. It has no effect where the limit has none.
	Urgent bool
	// For is how long an OpBlock lasts, how old the news of an OpSync is, and for an OpSettle with an ID how long ago it was first
	// sent, zero the first time.
	For time.Duration
	// ID tells settlements apart: a settlement whose ID the bucket remembers changes nothing. Zero for none.
	ID int64
	// Up lets an OpSync raise the balance as well.
	Up bool
	// Dry answers and changes nothing.
	Dry bool
}

// Step is the arithmetic of the bucket: what the request makes of b at now, and the answer. It is pure: no clock, no I/O, and b
// is left as it was. It assumes a valid limit and len(request.Tokens) == len(limit.Meters) or no tokens; Limiter sees to both.
// Version grows only where the bucket changed, so a store need not write when it did not.
func Step(b Bucket, limit Limit, now time.Time, request Request) (Bucket, Outcome) {
	before := b.accrue(limit, now)
	after := before
	after.Meters = slices.Clone(before.Meters)
	o, changed := after.answer(limit, request)
	if request.Dry {
		after, changed = before, false
	}
	if changed || !request.Dry && !b.At.IsZero() && !slices.EqualFunc(b.Meters, after.Meters, sameMeter) {
		after.Version++
	}
	o.At, o.Bucket = after.At, after
	return after, o
}

// Fold is Step for requests of one bucket, in order.
func Fold(b Bucket, limit Limit, now time.Time, requests []Request) (Bucket, []Outcome) {
	outcomes := make([]Outcome, len(requests))
	for i, r := range requests {
		b, outcomes[i] = Step(b, limit, now, r)
	}
	return b, outcomes
}

func sameMeter(a, b Balance) bool { return a.Name == b.Name && a.Filling == b.Filling }

// answer changes the bucket, and says whether it did.
func (b *Bucket) answer(l Limit, r Request) (o Outcome, changed bool) {
	switch r.Op {
	case OpStart:
		return b.start(l, r)
	case OpReserve:
		return b.reserve(l, r, b.wait(b.newcomer(l, r), r.Tokens, r.Urgent))
	case OpAllow:
		return b.allow(l, r)
	case OpSettle:
		return b.settleOnce(r)
	case OpSync:
		return b.settle(b.unseen(r), false)
	case OpRelease:
		for k, n := range r.Tokens {
			b.Meters[k].Reserved = min(b.Meters[k].Started, b.Meters[k].Reserved+n)
		}
		return Outcome{State: StateSettled}, true
	case OpBlock:
		return b.block(l, r.For)
	case OpUnblock:
		return b.unblock()
	case OpRefresh:
	}
	return Outcome{State: StateSettled}, false
}

// start starts the task when it has room within Hold.
func (b *Bucket) start(l Limit, r Request) (Outcome, bool) {
	balance := b.newcomer(l, r)
	if r.Promoted {
		balance = Balance.started
	}
	w := b.wait(balance, r.Tokens, r.Urgent)
	if w <= Hold {
		b.take(r, w)
		return Outcome{State: StateStarted, Hold: w}, true
	}
	if r.Promoted {
		return Outcome{State: StateWaiting, RetryAt: b.At.Add(w)}, false
	}
	return b.reserve(l, r, w)
}

// newcomer is the balance that decides for a new task: an urgent one in a limit with headroom need not wait for what is promised.
func (*Bucket) newcomer(l Limit, r Request) func(Balance) float64 {
	if r.Urgent && l.HasHeadroom() {
		return Balance.started
	}
	return Balance.reserved
}

// take charges a start in w.
func (b *Bucket) take(r Request, w time.Duration) {
	for k, n := range r.Tokens {
		s := &b.Meters[k]
		if !r.Reserved {
			s.Reserved = b.afterPromise(k, n, w)
		}
		s.Started = b.afterStart(k, s.Started, n, w)
		s.Reserved = min(s.Reserved, s.Started)
	}
}

// reserve promises tokens that are there in w, or only says so where max_reserved or max_wait does not allow a promise.
func (b *Bucket) reserve(l Limit, r Request, w time.Duration) (Outcome, bool) {
	o := Outcome{State: StateWaiting, RetryAt: b.At.Add(w)}
	if l.MaxWait > 0 && w > l.MaxWait {
		return o, false
	}
	after := make([]float64, len(r.Tokens))
	for k, n := range r.Tokens {
		after[k] = b.afterPromise(k, n, w)
		if most := l.Meters[k].MaxReserved; most != Unlimited && -after[k] > most+tolerance {
			return o, false
		}
	}
	for k, x := range after {
		b.Meters[k].Reserved = x
	}
	o.State = StateReserved
	return o, true
}

// allow starts a new task when there is room at this very moment.
func (b *Bucket) allow(l Limit, r Request) (Outcome, bool) {
	w := b.wait(b.newcomer(l, r), r.Tokens, r.Urgent)
	if w > atOnce {
		return Outcome{State: StateRefused, RetryAt: b.At.Add(w)}, false
	}
	b.take(r, w)
	return Outcome{State: StateStarted}, true
}

// block lets nothing start for d, at most the limit's max_block. Tokens that come back meanwhile would all start when it ends, so a
// token bucket is empty then: the provider has just said that it is. A block inside a longer one changes nothing.
func (b *Bucket) block(l Limit, d time.Duration) (Outcome, bool) {
	end := b.At.Add(min(d, l.LongestBlock()))
	o := Outcome{State: StateSettled, RetryAt: later(end, b.Blocked)}
	if d <= 0 || !end.After(b.Blocked) {
		o.RetryAt = b.Blocked
		return o, false
	}
	for k := range b.Meters {
		s := &b.Meters[k]
		comes := s.Filling.passed(b.At, end)
		if s.Filling.windowed() { // a window that ends meanwhile fills as ever; nothing is promised above the capacity
			s.Reserved = min(s.Reserved, s.Filling.Capacity-comes)
			continue
		}
		s.Started = min(s.Started, -comes)
		s.Reserved = min(s.Started, s.Reserved-s.Filling.passed(later(b.At, b.Blocked), end))
	}
	b.Blocked = end
	return o, true
}

// unblock ends the block. What it kept from coming back is given back up to an empty bucket.
func (b *Bucket) unblock() (Outcome, bool) {
	o := Outcome{State: StateSettled}
	if !b.Blocked.After(b.At) {
		return o, false
	}
	for k := range b.Meters {
		s := &b.Meters[k]
		kept := s.Filling.passed(b.At, b.Blocked)
		s.Started = min(s.Started+kept, max(s.Started, 0))
		s.Reserved = min(s.Started, s.Reserved+kept)
	}
	b.Blocked = time.Time{}
	return o, true
}
