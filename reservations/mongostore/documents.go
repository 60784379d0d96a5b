package mongostore

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/headway-go/headway/reservations"
)

// The stored bucket. Fields that are not named here are left as they are, so that a later version may add some.
//
//	_id      "limit" or "limit:key"
//	at       date for which the ledgers are true
//	shift    seconds at that moment; speed: how fast the clock of the line runs; carry: seconds
//	blocked  seconds from at on in which nothing starts
//	gen, v   generation and version
//	meters   names; led: for each of them its five ledgers, in tokens; was: how each is filled, see meterDocument
//	gap      for each of them, which part of the line's debt nobody asked for
//	shape    of the meters: tells limits apart whose meters differ in name, order or filling, see shapeOf
//	idle     meters that the limit lacks: {name, at, led, gap, was}
//	keep     date before which the bucket must not be forgotten because of those
//	owed     for each of them, in tokens, what the line still counts on and will not find
//	express  the ledger of urgent tasks, by meter; xshift: the shift of their line, in seconds. Only where a limit with headroom has used
//	         the bucket
//	ids      of the last settlements, the eldest first; forgot: date at which one was last dropped
//	out      answers to the last call, none where it was a swap
//	clock    the server's clock at the last swap
//	expires  date from which the bucket may be forgotten
const (
	fieldAt      = "at"
	fieldExpires = "expires"
	fieldShape   = "shape"
)

// States in the stored answers, and operations in the requests.
const (
	started  = string(reservations.StateStarted)
	late     = string(reservations.StateLate)
	reserved = string(reservations.StateReserved)
	ticket   = string(reservations.StateTicket)
	again    = string(reservations.StateAgain)
	refused  = string(reservations.StateRefused)
	express  = string(reservations.StateExpress)
	settled  = string(reservations.StateSettled)

	opBegin   = string(reservations.OpBegin)
	opBlock   = string(reservations.OpBlock)
	opSettle  = string(reservations.OpSettle)
	opRelease = string(reservations.OpRelease)
	opSync    = string(reservations.OpSync)
	opLose    = string(reservations.OpLose)
	opAdvance = string(reservations.OpAdvance)
)

// errMalformed is matched when a document is not one of ours.
var errMalformed = errors.New("malformed bucket document")

// meterDocuments describes the meters to the pipeline: head is the headroom, where one of them has some.
func meterDocuments(limit reservations.Limit) bson.A {
	meters := make(bson.A, len(limit.Meters))
	for k, m := range limit.Meters {
		d := meterDocument(m)
		if limit.HasHeadroom() {
			d = append(d, to("head", m.Headroom))
		}
		meters[k] = d
	}
	return meters
}

// meterDocument is name and fillingDocument, with max and slack where the plan is bounded (MongoDB can't compute with the unlimited
// bound), and for windows start in milliseconds.
func meterDocument(m reservations.Meter) bson.D {
	d := append(bson.D{to("name", m.Name)}, fillingDocument(m.Filling())...)
	if m.MaxReserved != reservations.Unlimited {
		d = append(d, to("max", m.MaxReserved), to("slack", m.Slack()))
	}
	if m.Kind == reservations.KindWindow {
		d = append(d, to("start", milliseconds(m.Start)))
	}
	return d
}

// fillingDocument is cap, and rate: tokens a second. For windows also win, the length in seconds; ms, the same; fill, what comes at the end; off, in
// milliseconds, what the clock is ahead of the windows, whole ones left out.
func fillingDocument(f reservations.Filling) bson.D {
	if f.Period == 0 {
		return bson.D{to("cap", f.Capacity), to("rate", f.Rate)}
	}
	return bson.D{
		to("cap", f.Capacity), to("rate", f.Rate/f.Period.Seconds()), to("fill", f.Rate),
		to("win", f.Period.Seconds()), to("ms", milliseconds(f.Period)), to("off", milliseconds(f.Offset-f.Period)),
	}
}

// shapeOf is a hash of what must be the same for the ledgers to mean the same: the names of the meters, in order, and how each is filled.
func shapeOf(limit reservations.Limit) int64 {
	h := fnv.New64a()
	for _, m := range limit.Meters {
		f := m.Filling()
		_, _ = fmt.Fprintf(h, "%s %x %x %d %d\n", m.Name, f.Rate, f.Capacity, f.Period, f.Offset) // a hash takes all
	}
	return int64(h.Sum64()) //nolint:gosec // any 64 bits will do
}

// milliseconds of d. A whole number stays one, also where d, the time since 1970, has more nanoseconds than a float64 has digits.
func milliseconds(d time.Duration) float64 {
	return float64(d/time.Millisecond) + float64(d%time.Millisecond)/float64(time.Millisecond)
}

func requestDocuments(requests []reservations.Request, headroom bool) bson.A {
	documents := make(bson.A, len(requests))
	for i, r := range requests {
		d := requestDocument(r)
		if headroom {
			d = append(d, urgentDocument(r)...)
		}
		documents[i] = d
	}
	return documents
}

// urgentDocument is what a request to a bucket with headroom has beside: urgent; placed: it has a place in the line of urgent tasks, or (for
// release) gives it up.
func urgentDocument(r reservations.Request) bson.D {
	switch r.Op {
	case reservations.OpBegin, reservations.OpCheck:
		placed := r.State == reservations.StateExpress || r.State == reservations.StateLate
		return bson.D{to("urgent", r.Urgent), to("placed", r.Urgent && placed)}
	case reservations.OpReserve, reservations.OpTake:
		return bson.D{to("urgent", r.Urgent), to("placed", false)}
	case reservations.OpRelease:
		return bson.D{to("placed", r.State == reservations.StateExpress)}
	case reservations.OpSettle, reservations.OpYield, reservations.OpLose, reservations.OpSync, reservations.OpBlock, reservations.OpAdvance:
	}
	return nil
}

// requestDocument describes a request to the pipeline: op; for: seconds of a block, or the age of what a sync brings, or by how much the line is moved at most; up: it may raise; id and
// age, in milliseconds, of a settlement; here, the ledger that its state looks at; to: the ledgers to
// which a release gives; hold: the longest wait in seconds with which it starts; take: it is given no place; dry: it changes nothing; lead: for how many
// seconds at least it does not start; due: when a reserved task, or the first in line, was told to come, in milliseconds; gen: by which generation; n: tokens in the order of the meters.
func requestDocument(r reservations.Request) bson.D {
	const never = -1. // waits are not negative
	n := bson.A{}
	for _, x := range r.Tokens {
		n = append(n, x)
	}
	switch r.Op {
	case reservations.OpSettle:
		d := bson.D{to("op", opSettle), to("n", n)}
		if r.ID != 0 {
			d = append(d, to("id", r.ID), to("age", int64(math.Ceil(milliseconds(r.For)))))
		}
		return d
	case reservations.OpSync:
		return bson.D{to("op", opSync), to("for", r.For.Seconds()), to("up", r.Up), to("n", n)}
	case reservations.OpBlock:
		length := min(r.For, reservations.MaxBlock).Seconds()
		return bson.D{to("op", opBlock), to("for", length), to("n", n)}
	case reservations.OpRelease:
		return bson.D{to("op", opRelease), to("to", ledgers(r.State.FirstCharged(), reservations.LedgerCount)), to("n", n)}
	case reservations.OpYield:
		return bson.D{to("op", opRelease), to("to", ledgers(reservations.LedgerUse, reservations.LedgerLate)), to("n", n)}
	case reservations.OpLose:
		return bson.D{to("op", opLose), to("n", n)}
	case reservations.OpAdvance:
		return bson.D{to("op", opAdvance), to("due", milliseconds(time.Duration(r.Due.UnixNano()))), to("gen", r.Generation), to("for", r.For.Seconds()), to("n", n)}
	case reservations.OpReserve:
		d := bson.D{to("op", opBegin), to("here", reservations.LedgerLine), to("hold", never), to("take", false), to("dry", r.Dry), to("n", n)}
		if r.For > 0 {
			d = append(d, to("lead", r.For.Seconds()))
		}
		return d
	case reservations.OpTake:
		return bson.D{to("op", opBegin), to("here", reservations.LedgerLine), to("hold", atOnce), to("take", true), to("dry", r.Dry), to("n", n)}
	case reservations.OpBegin, reservations.OpCheck:
	}
	dry := r.Dry || r.Op == reservations.OpCheck
	d := bson.D{to("op", opBegin), to("here", r.State.Ledger()), to("hold", reservations.Hold.Seconds()), to("take", false), to("dry", dry), to("n", n)}
	if r.State.Ledger() == reservations.LedgerLate && !r.Due.IsZero() {
		d = append(d, to("due", milliseconds(time.Duration(r.Due.UnixNano()))))
	}
	return d
}

// ledgers are those from first to before end.
func ledgers(first, end int) bson.A {
	l := bson.A{}
	for i := first; i < end; i++ {
		l = append(l, i)
	}
	return l
}

// decodeOutcomes reads the answers to a call of n requests.
func decodeOutcomes(raw bson.Raw, n int) ([]reservations.Outcome, error) {
	if err := raw.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", errMalformed, err)
	}
	at, err := instant(raw)
	if err != nil {
		return nil, err
	}
	generation, version, speed := whole(raw.Lookup("gen")), whole(raw.Lookup("v")), speedOf(raw)
	answers := elements(raw.Lookup("out"))
	if len(answers) != n {
		return nil, fmt.Errorf("%w: %d answers to %d requests", errMalformed, len(answers), n)
	}
	outcomes := make([]reservations.Outcome, n)
	for i, a := range answers {
		document, _ := a.DocumentOK()
		if outcomes[i], err = decodeOutcome(document, at, speed); err != nil {
			return nil, fmt.Errorf("answer %d: %w", i, err)
		}
		outcomes[i].Generation, outcomes[i].Version = generation, version-int64(n-1-i)
	}
	return outcomes, nil
}

func decodeOutcome(a bson.Raw, at time.Time, speed float64) (reservations.Outcome, error) {
	name, _ := a.Lookup("o").StringValueOK()
	w, okW := number(a.Lookup("w"))
	shift, okS := number(a.Lookup("s"))
	if !okW || !okS {
		return reservations.Outcome{}, fmt.Errorf("%w: no time", errMalformed)
	}
	o := reservations.Outcome{State: reservations.State(name), At: at, Shift: seconds(shift), Speed: speed}
	if ahead, ok := number(a.Lookup("x")); ok {
		o.Headroom, o.ExpressShift = true, seconds(ahead)
	}
	onLine := seconds(w * speed)
	if speed != 1 {
		onLine++ // rounded up, as in reservations
	}
	due := at.Add(onLine + seconds(shift))
	switch o.State {
	case reservations.StateSettled:
		if w > 0 { // a block
			o.Due = due
		}
	case reservations.StateStarted:
		o.Hold = seconds(w)
	case reservations.StateLate, reservations.StateReserved, reservations.StateTicket, reservations.StateAgain,
		reservations.StateRefused:
		o.Due = due
	case reservations.StateExpress:
		o.Due = at.Add(seconds(w) + o.ExpressShift)
	case reservations.StateNew:
		return reservations.Outcome{}, fmt.Errorf("%w: state %q", errMalformed, name)
	default:
		return reservations.Outcome{}, fmt.Errorf("%w: state %q", errMalformed, name)
	}
	return o, nil
}

func instant(raw bson.Raw) (time.Time, error) {
	ms, ok := raw.Lookup(fieldAt).DateTimeOK()
	if !ok {
		return time.Time{}, fmt.Errorf("%w: no %s", errMalformed, fieldAt)
	}
	return time.UnixMilli(ms), nil
}

func elements(v bson.RawValue) []bson.RawValue {
	array, ok := v.ArrayOK()
	if !ok {
		return nil
	}
	values, err := array.Values()
	if err != nil {
		return nil
	}
	return slices.Clip(values)
}

// number reads any kind of number: servers may store a whole double as an integer.
func number(v bson.RawValue) (float64, bool) {
	if d, ok := v.DoubleOK(); ok {
		return d, !math.IsNaN(d) && !math.IsInf(d, 0)
	}
	if i, ok := v.Int32OK(); ok {
		return float64(i), true
	}
	if i, ok := v.Int64OK(); ok {
		return float64(i), true
	}
	return 0, false
}

// whole is the integer v holds, or zero.
func whole(v bson.RawValue) int64 {
	if i, ok := v.Int64OK(); ok {
		return i
	}
	if x, ok := number(v); ok && math.Abs(x) < 1<<62 {
		return int64(x)
	}
	return 0
}

// seconds converts, bounded by MaxWait so that no sum with a time can overflow.
func seconds(s float64) time.Duration {
	bound := reservations.MaxWait.Seconds()
	return time.Duration(min(max(s, -bound), bound) * float64(time.Second))
}
