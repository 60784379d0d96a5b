package mongostore

import (
	"errors"
	"fmt"
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
//	shift    seconds; carry: seconds
//	blocked  seconds from at on in which nothing starts
//	gen, v   generation and version
//	meters   names; led: for each of them its five ledgers, in tokens
//	out      answers to the last call
//	expires  date from which the bucket may be forgotten
const (
	fieldAt      = "at"
	fieldExpires = "expires"
)

// States in the stored answers, and operations in the requests.
const (
	started  = string(reservations.StateStarted)
	late     = string(reservations.StateLate)
	reserved = string(reservations.StateReserved)
	ticket   = string(reservations.StateTicket)
	again    = string(reservations.StateAgain)
	refused  = string(reservations.StateRefused)
	settled  = string(reservations.StateSettled)

	opBegin   = string(reservations.OpBegin)
	opBlock   = string(reservations.OpBlock)
	opSettle  = string(reservations.OpSettle)
	opRelease = string(reservations.OpRelease)
)

// errMalformed is matched when a document is not one of ours.
var errMalformed = errors.New("malformed bucket document")

// answerFields is what a call needs of the document.
func answerFields() bson.D {
	return bson.D{to("_id", 0), to(fieldAt, 1), to("gen", 1), to("v", 1), to("out", 1)}
}

// meterDocuments describes the meters to the pipeline. An unlimited bound is left out: MongoDB can't compute with such numbers.
func meterDocuments(limit reservations.Limit) bson.A {
	meters := make(bson.A, len(limit.Meters))
	for k, m := range limit.Meters {
		d := bson.D{to("name", m.Name), to("cap", m.Cap()), to("rate", m.RatePerSecond())}
		if m.MaxReserved != reservations.Unlimited {
			d = append(d, to("max", m.MaxReserved), to("slack", m.Slack()))
		}
		if m.Kind == reservations.KindWindow {
			d = append(d, windowFields(m)...)
		}
		meters[k] = d
	}
	return meters
}

func requestDocuments(requests []reservations.Request) bson.A {
	documents := make(bson.A, len(requests))
	for i, r := range requests {
		documents[i] = requestDocument(r)
	}
	return documents
}

// requestDocument describes a request to the pipeline: op; for: seconds of a block; here, the ledger that its state looks at; to: the ledgers
// to which a release gives; hold: the longest wait in seconds with which it starts; take: it is given no place; dry: it changes nothing; n: tokens in the
// order of the meters.
func requestDocument(r reservations.Request) bson.D {
	const never = -1. // waits are not negative
	n := bson.A{}
	for _, x := range r.Tokens {
		n = append(n, x)
	}
	switch r.Op {
	case reservations.OpSettle:
		return bson.D{to("op", opSettle), to("n", n)}
	case reservations.OpBlock:
		length := min(r.For, reservations.MaxBlock).Seconds()
		return bson.D{to("op", opBlock), to("for", length), to("n", n)}
	case reservations.OpRelease:
		return bson.D{to("op", opRelease), to("to", ledgers(r.State.FirstCharged(), reservations.LedgerCount)), to("n", n)}
	case reservations.OpYield:
		return bson.D{to("op", opRelease), to("to", ledgers(reservations.LedgerUse, reservations.LedgerLate)), to("n", n)}
	case reservations.OpReserve:
		return bson.D{to("op", opBegin), to("here", reservations.LedgerLine), to("hold", never), to("take", false), to("dry", r.Dry), to("n", n)}
	case reservations.OpTake:
		return bson.D{to("op", opBegin), to("here", reservations.LedgerLine), to("hold", atOnce), to("take", true), to("dry", r.Dry), to("n", n)}
	case reservations.OpBegin, reservations.OpCheck:
	}
	dry := r.Dry || r.Op == reservations.OpCheck
	return bson.D{to("op", opBegin), to("here", r.State.Ledger()), to("hold", reservations.Hold.Seconds()), to("take", false), to("dry", dry), to("n", n)}
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
	generation, version := whole(raw.Lookup("gen")), whole(raw.Lookup("v"))
	answers := elements(raw.Lookup("out"))
	if len(answers) != n {
		return nil, fmt.Errorf("%w: %d answers to %d requests", errMalformed, len(answers), n)
	}
	outcomes := make([]reservations.Outcome, n)
	for i, a := range answers {
		document, _ := a.DocumentOK()
		if outcomes[i], err = decodeOutcome(document, at); err != nil {
			return nil, fmt.Errorf("answer %d: %w", i, err)
		}
		outcomes[i].Generation, outcomes[i].Version = generation, version-int64(n-1-i)
	}
	return outcomes, nil
}

func decodeOutcome(a bson.Raw, at time.Time) (reservations.Outcome, error) {
	name, _ := a.Lookup("o").StringValueOK()
	w, okW := number(a.Lookup("w"))
	shift, okS := number(a.Lookup("s"))
	if !okW || !okS {
		return reservations.Outcome{}, fmt.Errorf("%w: no time", errMalformed)
	}
	o := reservations.Outcome{State: reservations.State(name), At: at, Shift: seconds(shift)}
	switch o.State {
	case reservations.StateSettled:
	case reservations.StateStarted:
		o.Hold = seconds(w)
	case reservations.StateLate, reservations.StateReserved, reservations.StateTicket, reservations.StateAgain,
		reservations.StateRefused:
		o.Due = at.Add(seconds(w) + seconds(shift))
	case reservations.StateNew:
		return reservations.Outcome{}, fmt.Errorf("%w: state %q", errMalformed, name)
	default:
		return reservations.Outcome{}, fmt.Errorf("%w: state %q", errMalformed, name)
	}
	return o, nil
}

// decodeBucket reads a whole bucket. What is missing is zero; a meter without its ledgers is an error.
func decodeBucket(raw bson.Raw) (reservations.Bucket, error) {
	if err := raw.Validate(); err != nil {
		return reservations.Bucket{}, fmt.Errorf("%w: %w", errMalformed, err)
	}
	at, err := instant(raw)
	if err != nil {
		return reservations.Bucket{}, err
	}
	b := reservations.Bucket{At: at, Generation: whole(raw.Lookup("gen")), Version: whole(raw.Lookup("v"))}
	b.Shift, _ = number(raw.Lookup("shift"))
	b.Blocked, _ = number(raw.Lookup("blocked"))
	b.Carry, _ = number(raw.Lookup("carry"))
	names, rows := elements(raw.Lookup("meters")), elements(raw.Lookup("led"))
	if len(names) != len(rows) {
		return reservations.Bucket{}, fmt.Errorf("%w: %d meters, ledgers of %d", errMalformed, len(names), len(rows))
	}
	for k := range names {
		state := reservations.MeterState{}
		name, ok := names[k].StringValueOK()
		state.Name = name
		ledgers := elements(rows[k])
		ok = ok && len(ledgers) == reservations.LedgerCount
		for i := 0; ok && i < reservations.LedgerCount; i++ {
			state.Ledgers[i], ok = number(ledgers[i])
		}
		if !ok {
			return reservations.Bucket{}, fmt.Errorf("%w: meter %d", errMalformed, k)
		}
		b.Meters = append(b.Meters, state)
	}
	return b, nil
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
