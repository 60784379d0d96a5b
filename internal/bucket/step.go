package bucket

import (
	"math"
	"slices"
	"time"
)

// Op is what a Request asks of a bucket.
type Op string

const (
	// OpStart starts a task within Hold. A new task that can't start reserves, as OpReserve does; a promoted one only
	// gets the time at which it could start.
	OpStart Op = "start"
	// OpReserve promises tokens to a task that will wait, as far as max_reserved and max_wait allow.
	OpReserve Op = "reserve"
	// OpAllow starts a new task at once or not at all: it neither holds nor reserves.
	OpAllow Op = "allow"
	// OpSettle gives Tokens back to both balances; negative ones are taken. It ends the Lease.
	OpSettle Op = "settle"
	// OpRelease gives back a reservation that is not needed: Tokens, to the reserved balance.
	OpRelease Op = "release"
	// OpBlock lets nothing start for a time.
	OpBlock Op = "block"
	// OpRefuse says that the provider refused the call of a start: the bucket stops for a time, or the caller waits alone.
	OpRefuse Op = "refuse"
	// OpAnswered says that the call of a start had a good answer. It ends a row of refusals.
	OpAnswered Op = "answered"
	// OpUnblock ends the block in force and the row of refusals, and gives back what an OpSync took.
	OpUnblock Op = "unblock"
	// OpRenew extends the Lease. StateRefused says that the bucket has no such lease any more.
	OpRenew Op = "renew"
	// OpSync corrects the bucket by what its provider says is left.
	OpSync Op = "sync"
	// OpRefresh makes the bucket follow a changed limit, and changes nothing else.
	OpRefresh Op = "refresh"
)

// atOnce is a wait that counts as none: rounding must not refuse a task that comes back at its RetryAt. The task begins
// at once, so that a refund that follows it comes after its start.
const atOnce = 10 * time.Nanosecond

// Request is one thing asked of a bucket.
type Request struct {
	Op Op
	// Tokens are in the order of the limit's meters: the charge, for OpSettle what is given back, for OpSync what is
	// left, where a negative number means not known. Nil for OpBlock, OpAnswered, OpUnblock, OpRenew and OpRefresh, and
	// for an OpRefuse that does not know the size of the call.
	Tokens []float64
	// Promoted says that the task has waited its turn (OpStart): only the started balance counts.
	Promoted bool
	// Reserved says that the task holds a reservation: an OpStart is charged to the started balance alone, and an
	// OpSettle that gives an unused start back leaves the reservation.
	Reserved bool
	// Urgent lets the task use the headroom of the limit. It has no effect where the limit has none.
	Urgent bool
	// For is how long an OpBlock lasts, or how long an OpRefuse asks to wait (zero if it names no time). For an OpSync it
	// is how old its news is. For an OpSettle with an ID it is how long ago the settlement was first sent, zero the
	// first time.
	// For an OpStart, an OpAllow and an OpRenew it is how long the Lease lasts.
	For time.Duration
	// Lease is the ID of the lease for what the start takes of a meter of calls in flight; zero where the limit has none.
	// A start with the lease of an earlier one replaces that.
	Lease int64
	// By is the caller of an OpRefuse or OpAnswered, and Reason why it was refused; empty means ReasonLimit.
	By     int64
	Reason Reason
	// Began is when the call was granted of an OpRefuse or OpAnswered, or could begin of an OpSettle for a call that was
	// never made: since then the provider has had what it gives back. On the store's clock; zero where it is not known.
	Began time.Time
	// Late is how long ago the call of an OpSettle ended, zero for a moment ago.
	Late time.Duration
	// Ended is when the call of an OpSettle ended at the earliest, on the store's clock; zero where it is not known. It
	// counts if it is more than LateMost ago: because the process stalled, or because the store took long.
	Ended time.Time
	// ID distinguishes settlements: a settlement whose ID the bucket remembers changes nothing. Zero for none.
	ID int64
	// HoldEnd is the HoldEnd of the start that an OpSettle gives tokens back of: they hold no longer. Zero for none.
	HoldEnd time.Time
	// Up lets an OpSync raise the balance as well.
	Up bool
	// Dry answers and changes nothing.
	Dry bool
}

// Fits says whether the request is one that a Limiter sends for the limit. A store that reads requests from where other
// programs write drops all others: they could make the bucket one that can't be read.
func (r Request) Fits(l Limit) bool {
	if len(r.Tokens) != 0 && len(r.Tokens) != len(l.Meters) {
		return false
	}
	least, longest := 0., time.Duration(math.MaxInt64)
	switch r.Op {
	case OpStart, OpAllow:
		longest = LeaseKept
		if len(r.Tokens) > 0 && r.Lease == 0 && l.TakesSlots(r.Tokens) {
			return false
		}
	case OpRenew:
		longest = LeaseKept
	case OpSettle, OpSync:
		least = -LargestAmount
	case OpRefuse:
		if !r.Reason.known() {
			return false
		}
	case OpReserve, OpRelease, OpBlock, OpAnswered, OpUnblock, OpRefresh:
	default:
		return false
	}
	impossible := func(n float64) bool { return !(n >= least && n <= LargestAmount) }
	return r.For >= 0 && r.For <= longest && r.Late >= 0 && !slices.ContainsFunc(r.Tokens, impossible)
}

// State is the answer of a bucket, in one word.
type State = string

// The states, which package reservations explains.
const (
	StateStarted  State = "started"
	StateReserved State = "reserved"
	StateWaiting  State = "waiting"
	StateRefused  State = "refused"
	StateSettled  State = "settled"
)

// Answer is the answer of a bucket to a Request. Its BSON form is what a store passes on to another process.
type Answer struct {
	State State `bson:"s"`
	// Hold is how long a started task has to wait in its worker, at most the constant Hold.
	Hold time.Duration `bson:"h,omitempty"`
	// RetryAt is when the task could start if nothing else asks meanwhile, and for a block when the block in force
	// ends. Zero where the task starts.
	RetryAt time.Time `bson:"r,omitempty"`
	// At is the moment of the answer on the store's clock, as RetryAt is.
	At time.Time `bson:"a"`
	// Bucket is the bucket after the request, or a later state of it.
	Bucket Bucket `bson:"-"`
}

// Started says whether the task starts.
func (a Answer) Started() bool { return a.State == StateStarted }

// Wait is how long after the answer RetryAt is; zero for a task that starts.
func (a Answer) Wait() time.Duration {
	if a.RetryAt.IsZero() {
		return 0
	}
	return max(0, a.RetryAt.Sub(a.At))
}

// Step is the arithmetic of the bucket: what the request makes of b at now, and the answer. It is pure: no clock, no
// I/O, and b is left as it was. It assumes a valid limit and len(request.Tokens) == len(limit.Meters) or no tokens;
// Limiter sees to both. Version grows exactly if the bucket changed by more than what comes back in time. A store need
// not write a bucket whose Version did not grow.
func Step(b Bucket, limit Limit, now time.Time, request Request) (Bucket, Answer) {
	before := b.Accrue(limit, now)
	after := before
	after.Meters = slices.Clone(before.Meters)
	o := after.answer(limit, request)
	after.peak(before, request, o.Hold)
	after.countLeases()
	switch {
	case request.Dry:
		after = before
	case after.differs(before) || before.followed(b):
		after.Version++
	}
	o.At, o.Bucket = after.At, after
	return after, o
}

// Fold is Step for requests of one bucket, in order.
func Fold(b Bucket, limit Limit, now time.Time, requests []Request) (Bucket, []Answer) {
	outcomes := make([]Answer, len(requests))
	for i, r := range requests {
		b, outcomes[i] = Step(b, limit, now, r)
	}
	return b, outcomes
}

// differs says whether a request changed the bucket.
func (b Bucket) differs(before Bucket) bool {
	same := func(a, b Balance) bool {
		return a.Started == b.Started && a.Reserved == b.Reserved && a.Filling == b.Filling &&
			a.Slowed.Equal(b.Slowed) && a.Climb == b.Climb && a.Lowered == b.Lowered && a.sameLeases(b)
	}
	return !slices.EqualFunc(b.Meters, before.Meters, same) || !b.Blocked.Equal(before.Blocked) ||
		b.Refused != before.Refused ||
		!slices.Equal(b.Settled, before.Settled)
}

// followed says whether b follows another limit than the stored bucket, a clock that ran back, or a store that may have
// lost changes.
func (b Bucket) followed(stored Bucket) bool {
	same := func(a, b Balance) bool { return a.Name == b.Name && a.Filling.rule() == b.Filling.rule() }
	return !stored.At.IsZero() && (b.At.Before(stored.At) || !stored.Since.IsZero() ||
		!slices.EqualFunc(b.Meters, stored.Meters, same))
}

// answer changes the bucket.
func (b *Bucket) answer(l Limit, r Request) Answer {
	switch r.Op {
	case OpStart, OpAllow:
		b.endLease(r.Lease)
		return b.start(l, r)
	case OpReserve:
		return b.reserve(l, r, b.wait(l.decides(r), r.Tokens, r.Urgent))
	case OpRenew:
		return b.renew(r.Lease, r.For)
	case OpSettle:
		b.settleOnce(r)
		b.endLease(r.Lease)
	case OpSync:
		b.slowWhereLow(r)
		b.sync(r)
	case OpRelease:
		b.release(r.Tokens)
	case OpBlock:
		return b.block(l, r.For)
	case OpRefuse:
		return b.refuse(l, r)
	case OpAnswered:
		b.answered(r)
	case OpUnblock:
		b.forget()
		b.unblock()
	case OpRefresh:
	}
	return Answer{State: StateSettled}
}

// start starts the task when it has room within Hold, and an OpAllow when it has room at this very moment.
func (b *Bucket) start(l Limit, r Request) Answer {
	w := b.wait(l.decides(r), r.Tokens, r.Urgent)
	switch {
	case r.Op == OpAllow && w > atOnce:
		return Answer{State: StateRefused, RetryAt: b.At.Add(w)}
	case r.Op == OpAllow:
		b.take(r, w)
		return Answer{State: StateStarted}
	case w <= Hold:
		b.take(r, w)
		return Answer{State: StateStarted, Hold: exact(w)}
	case r.Promoted:
		return Answer{State: StateWaiting, RetryAt: b.At.Add(w)}
	}
	return b.reserve(l, r, w)
}

// exact is a hold, or none where the wait counts as none: take keeps nothing for such a hold.
func exact(w time.Duration) time.Duration {
	if w <= atOnce {
		return 0
	}
	return w
}

// decides is the balance that decides whether the task may start. Promised tokens do not delay a promoted task, nor an
// urgent one in a limit with headroom.
func (l Limit) decides(r Request) func(Balance) float64 {
	if r.Promoted || r.Urgent && l.HasHeadroom() {
		return Balance.started
	}
	return Balance.reserved
}

// take charges a start in w.
func (b *Bucket) take(r Request, w time.Duration) {
	for k, n := range r.Tokens {
		s := &b.Meters[k]
		if s.Filling.InFlight {
			*s = s.lease(Taken{ID: r.Lease, Until: b.leaseEnd(r.For), Tokens: n})
			continue
		}
		if !r.Reserved {
			s.Reserved -= n
		}
		begins := b.At.Add(w) // what comes back until then above the capacity is lost
		room := s.Filling.Capacity - b.comes(s.Filling, begins)
		s.Lowered = max(0, min(s.Lowered, room-s.Started))
		s.Started = min(s.Started, room) - n
		s.Reserved = min(s.Reserved, s.Started)
		if w > atOnce {
			*s = s.hold(n, roundUp(begins, holdStep))
		}
	}
	b.space(b.At.Add(w))
}

// reserve promises tokens that are there in w, or only says so where max_reserved or max_wait does not allow a promise.
func (b *Bucket) reserve(l Limit, r Request, w time.Duration) Answer {
	o := Answer{State: StateWaiting, RetryAt: b.At.Add(w)}
	if l.MaxWait > 0 && w > l.MaxWait {
		return o
	}
	for k, n := range r.Tokens {
		if n-b.Meters[k].Reserved > l.Meters[k].MaxReserved+Tolerance {
			return o
		}
	}
	for k, n := range r.Tokens {
		b.Meters[k].Reserved -= n
	}
	o.State = StateReserved
	return o
}

// release gives a reservation back.
func (b *Bucket) release(n []float64) {
	for k, tokens := range n {
		s := &b.Meters[k]
		s.Reserved = min(s.Started, s.Reserved+tokens)
	}
}

// block lets nothing start for d, at most the limit's max_block. A token bucket is empty when the block ends: the
// provider has just said that it is, and what would come back meanwhile would all start at that moment. A block inside
// a longer one changes nothing.
func (b *Bucket) block(l Limit, d time.Duration) Answer {
	end := b.At.Add(min(d, l.MaxBlock))
	if d > 0 && end.After(b.Blocked) {
		b.slow(nil, false)
		b.stop(end)
	}
	return Answer{State: StateSettled, RetryAt: b.Blocked}
}

// stop lets nothing start until an end. Token buckets are empty then.
func (b *Bucket) stop(end time.Time) {
	b.Blocked = end
	for k := range b.Meters {
		if s := &b.Meters[k]; !s.Filling.windowed() {
			s.Started, s.Reserved, s.Lowered = min(s.Started, 0), min(s.Reserved, 0), 0
		}
	}
}

// forget ends the row of refusals, and gives back what headers took. Callers that stopped the bucket stay known.
func (b *Bucket) forget() {
	if r := b.Refused; r != nil {
		b.Refused = (&Refused{By: r.By}).at(b.At)
	}
	for k := range b.Meters {
		s := &b.Meters[k]
		s.Ceiling, s.Climb = 0, 0
		s.Started, s.Reserved, s.Lowered = s.Started+s.Lowered, s.Reserved+s.Lowered, 0
	}
}

// unblock ends the block in force. From now on tokens come back beside the tokens of tasks that hold until the end of
// the block: what would be above the capacity then is lost.
func (b *Bucket) unblock() {
	b.Blocked = time.Time{}
	for k := range b.Meters {
		s := &b.Meters[k]
		s.Started = min(s.Started, b.refundable(*s))
		s.Reserved = min(s.Started, s.Reserved)
	}
}
