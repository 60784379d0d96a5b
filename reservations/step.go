package reservations

import (
	"slices"
	"time"
)

// Op is what a Request asks of a bucket.
type Op string

const (
	// OpBegin asks to start now: the task starts, or is told when to come back.
	OpBegin Op = "begin"
	// OpReserve asks for a time without the right to start now: the outcome is reserved, or a ticket.
	OpReserve Op = "reserve"
	// OpCheck answers as OpBegin would and changes nothing.
	OpCheck Op = "check"
	// OpTake starts now or not at all: no place is taken and nobody holds. The outcome is started, or refused with the
	// earliest time at which it would be accepted, and then the ledgers are as if nothing was asked.
	OpTake Op = "take"
	// OpSettle gives Tokens back; negative ones are taken.
	OpSettle Op = "settle"
	// OpSync corrects the bucket by what the provider said was left: Tokens, negative where that is not known, and For is how old the news is.
	OpSync Op = "sync"
	// OpBlock lets nothing start for a time. Tokens are zero. Outcome.Due is when the block that is then in force ends.
	OpBlock Op = "block"
	// OpRelease gives up a place that was never started, described by State.
	OpRelease Op = "release"
	// OpYield gives back a start that was not used, and keeps its place: the task comes back with StateLate.
	OpYield Op = "yield"
	// OpLose says that Tokens, which a start took, are lost: the task begins again and takes them once more, which no plan counts on.
	OpLose Op = "lose"
	// OpAdvance moves those who wait on, by at most For, so that who was given Due by the bucket of that Generation comes as soon as there are Tokens for it. They are those of
	// the first in line: it is meant for when that one comes too late, since others that stood in line are no more.
	OpAdvance Op = "advance"
)

// atOnce is a wait that counts as none, in seconds: rounding must not refuse a take that comes back at the very time it was told.
const atOnce = 1e-8

// Request is one thing asked of a bucket.
type Request struct {
	Op Op
	// State is what the task was last given. Used by OpBegin and OpCheck (zero means new) and by OpRelease.
	State State
	// Due is the time that the task was given with StateReserved, on the clock of the line. OpBegin and OpCheck look at it: who comes before it
	// and has to hold until then misses nothing. Zero means that it is due now. For OpAdvance it is that of the first in line.
	Due time.Time
	// Generation is that of the bucket that gave Due, for OpAdvance: in another one it changes nothing.
	Generation int64
	// Tokens are in the order of the limit's meters: the charge, for OpSettle what is given back, for OpSync what is left.
	Tokens []float64
	// For is how long an OpBlock lasts, cut to MaxBlock. Zero and less do nothing, nor do they for OpAdvance. For OpSync it is how old the news is, for an OpSettle
	// with an ID how long ago it was first sent (zero the first time), and for OpReserve how long the task is at least on its way: no plan counts on what
	// a full bucket loses until then.
	For time.Duration
	// ID tells settlements apart: one whose ID the bucket remembers changes nothing. Zero for none.
	ID int64
	// Up lets an OpSync raise the balance as well.
	Up bool
	// Urgent lets OpBegin, OpCheck, OpReserve and OpTake use the headroom, where the limit has some; else it has no effect.
	Urgent bool
	// Dry makes OpBegin, OpReserve and OpTake answer and change nothing. The others do not look at it.
	Dry bool
}

// Step is the arithmetic of the bucket: what request makes of b at now, and the answer. It is pure: no clock, no I/O, and b
// is left as it was. It assumes a valid limit and len(request.Tokens) == len(limit.Meters); Limiter sees to both. The
// rules and the reason for each are in docs/architecture.md; stores that compute elsewhere (mongostore) must agree with it.
func Step(b Bucket, limit Limit, now time.Time, request Request) (Bucket, Outcome) {
	headroom := limit.HasHeadroom()
	if headroom {
		b = b.accrueUrgent(limit, now)
	} else {
		b = b.accrue(limit, now)
	}
	b.Version++
	var o Outcome
	switch request.Op {
	case OpBegin, OpCheck, OpReserve, OpTake:
		asked := &b
		if request.Dry || request.Op == OpCheck {
			asked = b.copied()
		}
		o = asked.admit(limit, request, headroom && request.Urgent)
		o.Due = b.unmoved(o.Due, asked.Shift)
	case OpBlock:
		o = b.block(limit, request.For)
	case OpSettle:
		o = b.settleOnce(limit, request)
	case OpSync:
		o = b.settle(limit, b.unseen(limit, request))
	case OpRelease:
		o = b.release(limit, request.State, request.Tokens)
	case OpYield:
		o = b.yield(limit, request.Tokens)
	case OpLose:
		o = b.lose(limit, request.Tokens)
	case OpAdvance:
		o = b.advance(limit, request)
	}
	o.At, o.Shift, o.Speed, o.Generation, o.Version = b.At, seconds(b.Shift), b.Speed, b.Generation, b.Version
	if headroom {
		b.orderExpress()
		o.Headroom, o.ExpressShift = true, seconds(b.ExpressShift)
	}
	return b, o
}

// copied is a bucket for requests that change nothing.
func (b *Bucket) copied() *Bucket {
	c := *b
	c.Meters, c.Express, c.Owed = slices.Clone(b.Meters), slices.Clone(b.Express), slices.Clone(b.Owed)
	return &c
}

// admit answers who wants to start, or to be given a place.
func (b *Bucket) admit(l Limit, r Request, urgent bool) Outcome {
	switch {
	case urgent:
		return b.urgent(l, r)
	case r.Op == OpReserve:
		return b.reserve(l, LedgerLine, r.Tokens, b.wait(l, LedgerLine, r.Tokens), r.For)
	case r.Op == OpTake:
		return b.take(l, r.Tokens)
	}
	return b.begin(l, r)
}

// begin starts the task when its ledger has room for it within Hold, and gives it its next place otherwise.
func (b *Bucket) begin(l Limit, r Request) Outcome {
	here, n := r.State.Ledger(), r.Tokens
	w := b.wait(l, here, n)
	switch {
	case here != LedgerLate:
	case !l.HasHeadroom():
		b.reconcile(l, r, w)
	case w > 0 && b.learn(l, w) && w > Hold.Seconds():
		return Outcome{State: StateReserved, Due: b.due(w)}
	}
	if w <= Hold.Seconds() {
		b.charge(l, LedgerUse, here, n, w)
		return Outcome{State: StateStarted, Hold: seconds(w)}
	}
	if here <= LedgerLate {
		w = b.wait(l, LedgerLate, n)
		b.charge(l, LedgerLate, LedgerLate, n, w)
		return Outcome{State: StateLate, Due: b.due(w)}
	}
	return b.reserve(l, here, n, w, 0)
}

// reserve gives a time in the plan, or where max_reserved does not allow it a place behind it. The task starts no sooner than lead from now.
func (b *Bucket) reserve(l Limit, here int, n []float64, w float64, lead time.Duration) Outcome {
	slacks, start := float64(here-LedgerPlan), max(w, lead.Seconds())
	fits := w <= l.longest(slacks) && b.within(l, here, n, start, slacks)
	switch {
	case fits && here == LedgerLine:
		b.place(l, LedgerPlan, n, start)
		return Outcome{State: StateReserved, Due: b.due(w)}
	case fits:
		b.charge(l, LedgerPlan, here, n, start)
		return Outcome{State: StateReserved, Due: b.due(w)}
	case here == LedgerLine:
		b.place(l, LedgerLine, n, w)
		return Outcome{State: StateTicket, Due: b.due(b.accepted(l, LedgerLine, w))}
	default:
		w = b.wait(l, LedgerAgain, n)
		b.charge(l, LedgerAgain, LedgerAgain, n, w)
		return Outcome{State: StateAgain, Due: b.due(b.accepted(l, LedgerAgain, w))}
	}
}

// accepted is how many seconds pass until the plan takes what was just charged to ledger i, and starts in w seconds.
func (b *Bucket) accepted(l Limit, i int, w float64) float64 {
	slacks := float64(i - LedgerPlan)
	return max(b.back(l, i, slacks), w-l.longest(slacks)) + ticketDelay
}

// take starts a newcomer when the line has room for it at this very moment, and changes nothing otherwise.
func (b *Bucket) take(l Limit, n []float64) Outcome {
	w := b.wait(l, LedgerLine, n)
	if w <= atOnce {
		b.charge(l, LedgerUse, LedgerLine, n, w)
		return Outcome{State: StateStarted}
	}
	return Outcome{State: StateRefused, Due: b.due(w)}
}

// due is the moment w seconds from now on the clock of the line. Where that runs slowly, a nanosecond of it is long: rounded up, so that nobody comes
// too early.
func (b *Bucket) due(w float64) time.Time {
	d := seconds(w * b.Speed)
	if b.Speed != 1 {
		d++
	}
	return b.At.Add(d + seconds(b.Shift))
}
