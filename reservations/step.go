package reservations

import "time"

// Op is what a Request asks of a bucket.
type Op string

const (
	// OpBegin asks to start now: the task starts, or is told when to come back.
	OpBegin Op = "begin"
	// OpReserve asks for a time without the right to start now: the outcome is reserved, or a ticket.
	OpReserve Op = "reserve"
	// OpCheck answers as OpBegin would and changes nothing.
	OpCheck Op = "check"
	// OpSettle gives Tokens back; negative ones are taken.
	OpSettle Op = "settle"
	// OpRelease gives up a place that was never started, described by State.
	OpRelease Op = "release"
)

// Request is one thing asked of a bucket.
type Request struct {
	Op Op
	// State is what the task was last given. Used by OpBegin and OpCheck (zero means new) and by OpRelease.
	State State
	// Tokens are in the order of the limit's meters: the charge, or for OpSettle what is given back.
	Tokens []float64
}

// Step is the arithmetic of the bucket: what request makes of b at now, and the answer. It is pure: no clock, no I/O, and b
// is left as it was. It assumes a valid limit and len(request.Tokens) == len(limit.Meters); Limiter sees to both. The
// rules and the reason for each are in docs/architecture.md; stores that compute elsewhere (mongostore) must agree with it.
func Step(b Bucket, limit Limit, now time.Time, request Request) (Bucket, Outcome) {
	b = b.accrue(limit, now)
	b.Version++
	var o Outcome
	switch request.Op {
	case OpBegin:
		o = b.begin(limit, request.State, request.Tokens)
	case OpReserve:
		o = b.reserve(limit, LedgerLine, request.Tokens, b.wait(limit, LedgerLine, request.Tokens))
	case OpCheck:
		scratch := b
		scratch.Meters = b.aligned(limit)
		o = scratch.begin(limit, request.State, request.Tokens)
	case OpSettle:
		o = b.settle(limit, request.Tokens)
	case OpRelease:
		o = b.release(limit, request.State, request.Tokens)
	}
	o.At, o.Shift, o.Generation, o.Version = b.At, seconds(b.Shift), b.Generation, b.Version
	return b, o
}

// ledgerOf is the ledger that a task looks at when it asks with the state it was last given.
func ledgerOf(s State) int {
	switch s {
	case StateTicket:
		return LedgerAgain
	case StateAgain:
		return LedgerPlan
	case StateReserved:
		return LedgerLate
	case StateLate:
		return LedgerUse
	case StateNew, StateStarted, StateSettled:
		return LedgerLine
	default:
		return LedgerLine
	}
}

// begin starts the task when its ledger has room for it within Hold, and gives it its next place otherwise.
func (b *Bucket) begin(l Limit, s State, n []float64) Outcome {
	here := ledgerOf(s)
	w := b.wait(l, here, n)
	if w <= Hold.Seconds() {
		b.charge(l, LedgerUse, here, n, w)
		return Outcome{State: StateStarted, Hold: seconds(w)}
	}
	if here <= LedgerLate {
		w = b.wait(l, LedgerLate, n)
		b.charge(l, LedgerLate, LedgerLate, n, w)
		return Outcome{State: StateLate, Due: b.due(w)}
	}
	return b.reserve(l, here, n, w)
}

// reserve gives a time in the plan, or where max_reserved does not allow it a place behind it.
func (b *Bucket) reserve(l Limit, here int, n []float64, w float64) Outcome {
	if b.within(l, here, n, w, float64(here-LedgerPlan)) {
		b.charge(l, LedgerPlan, here, n, w)
		return Outcome{State: StateReserved, Due: b.due(w)}
	}
	to, state := LedgerAgain, StateAgain
	if here == LedgerLine {
		to, state = LedgerLine, StateTicket
	}
	b.charge(l, to, to, n, b.wait(l, to, n))
	return Outcome{State: state, Due: b.due(b.back(l, to, float64(to-LedgerPlan)) + ticketDelay)}
}

// due is the moment w seconds from now on the clock of the line.
func (b *Bucket) due(w float64) time.Time { return b.At.Add(seconds(w) + seconds(b.Shift)) }
