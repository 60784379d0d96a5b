package mongostore

import (
	"fmt"
	"math"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/headway-go/headway/reservations"
)

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
	b.Speed = speedOf(raw)
	b.Blocked, _ = number(raw.Lookup("blocked"))
	b.Carry, _ = number(raw.Lookup("carry"))
	if keep := moment(raw.Lookup("keep")); !keep.IsZero() {
		b.Keep = keep.Add(-keepFull)
	}
	b.ExpressShift, _ = number(raw.Lookup("xshift"))
	b.Express, b.Owed = numbers(raw.Lookup("express")), numbers(raw.Lookup("owed"))
	b.Forgot = moment(raw.Lookup("forgot"))
	for _, id := range elements(raw.Lookup("ids")) {
		b.Settled = append(b.Settled, whole(id))
	}
	names, rows, was, gaps := elements(raw.Lookup("meters")), elements(raw.Lookup("led")), elements(raw.Lookup("was")), elements(raw.Lookup("gap"))
	if len(names) != len(rows) {
		return reservations.Bucket{}, fmt.Errorf("%w: %d meters, ledgers of %d", errMalformed, len(names), len(rows))
	}
	for k := range names {
		var filling bson.RawValue
		if k < len(was) {
			filling = was[k]
		}
		state, ok := decodeMeter(names[k], rows[k], filling)
		if !ok {
			return reservations.Bucket{}, fmt.Errorf("%w: meter %d", errMalformed, k)
		}
		if k < len(gaps) {
			state.Gap, _ = number(gaps[k])
		}
		b.Meters = append(b.Meters, state)
	}
	for k, idle := range elements(raw.Lookup("idle")) {
		d, _ := idle.DocumentOK()
		state, ok := decodeMeter(d.Lookup("name"), d.Lookup("led"), d.Lookup("was"))
		if !ok {
			return reservations.Bucket{}, fmt.Errorf("%w: idle meter %d", errMalformed, k)
		}
		state.Gap, _ = number(d.Lookup("gap"))
		b.Idle = append(b.Idle, reservations.IdleMeter{MeterState: state, At: moment(d.Lookup(fieldAt))})
	}
	return b, nil
}

// numbers reads an array; nil where one of them is none.
func numbers(v bson.RawValue) (all []float64) {
	for _, e := range elements(v) {
		x, ok := number(e)
		if !ok {
			return nil
		}
		all = append(all, x)
	}
	return all
}

// speedOf is 1 where the document does not say.
func speedOf(raw bson.Raw) float64 {
	if speed, _ := number(raw.Lookup("speed")); speed > 0 {
		return speed
	}
	return 1
}

// decodeMeter reads a meter, and says whether it is one. How it is filled may be missing.
func decodeMeter(name, ledgers, was bson.RawValue) (reservations.MeterState, bool) {
	state := reservations.MeterState{}
	text, ok := name.StringValueOK()
	state.Name = text
	balances := elements(ledgers)
	ok = ok && len(balances) == reservations.LedgerCount
	for i := 0; ok && i < reservations.LedgerCount; i++ {
		state.Ledgers[i], ok = number(balances[i])
	}
	if d, is := was.DocumentOK(); is {
		state.Filling = decodeFilling(d)
	}
	return state, ok
}

// decodeFilling reads what fillingDocument wrote; anything else is a zero one, which is not known.
func decodeFilling(d bson.Raw) reservations.Filling {
	capacity, okCap := number(d.Lookup("cap"))
	rate, okRate := number(d.Lookup("rate"))
	f := reservations.Filling{Rate: rate, Capacity: capacity}
	if ms, ok := number(d.Lookup("ms")); ok {
		off, okOff := number(d.Lookup("off"))
		f.Rate, okRate = number(d.Lookup("fill"))
		f.Period, f.Offset = nanoseconds(ms), nanoseconds(off)+nanoseconds(ms)
		okRate = okRate && okOff && f.Period > 0
	}
	if !okCap || !okRate || f.Rate <= 0 {
		return reservations.Filling{}
	}
	return f
}

// nanoseconds is the whole duration nearest to so many milliseconds.
func nanoseconds(ms float64) time.Duration {
	return time.Duration(math.Round(min(max(ms, -1e12), 1e12) * 1e6))
}

// moment is the date that v holds, or zero.
func moment(v bson.RawValue) time.Time {
	if ms, ok := v.DateTimeOK(); ok {
		return time.UnixMilli(ms)
	}
	return time.Time{}
}

// encodeBucket is the document of b without its _id, as the pipeline would have stored it after a call with the limit, less the answers (out). Dates
// are cut to milliseconds: the clock of such a bucket must be.
func encodeBucket(b reservations.Bucket, limit reservations.Limit) bson.D {
	names, led, gaps := make(bson.A, len(b.Meters)), make(bson.A, len(b.Meters)), make(bson.A, len(b.Meters))
	for k, s := range b.Meters {
		names[k], led[k], gaps[k] = s.Name, ledgersOf(s), s.Gap
	}
	speed := b.Speed
	if speed == 0 {
		speed = 1
	}
	d := bson.D{
		to(fieldAt, bson.NewDateTimeFromTime(b.At)), to("shift", b.Shift), to("speed", speed), to("carry", b.Carry), to("blocked", b.Blocked),
		to("gen", b.Generation), to("v", b.Version), to("meters", names), to("led", led), to("gap", gaps), to("was", meterDocuments(limit)), to("owed", b.Owed),
		to(fieldShape, shapeOf(limit)), to(fieldExpires, bson.NewDateTimeFromTime(b.FullAt(limit).Add(keepFull))),
	}
	if len(b.Idle) > 0 {
		idle := make(bson.A, len(b.Idle))
		for k, s := range b.Idle {
			idle[k] = bson.D{to("name", s.Name), to(fieldAt, bson.NewDateTimeFromTime(s.At)), to("led", ledgersOf(s.MeterState)), to("gap", s.Gap), to("was", fillingDocument(s.Filling))}
		}
		d = append(d, to("idle", idle), to("keep", bson.NewDateTimeFromTime(b.Keep.Add(keepFull))))
	}
	if len(b.Express) > 0 {
		d = append(d, to("express", b.Express))
	}
	if len(b.Express) > 0 || b.ExpressShift != 0 {
		d = append(d, to("xshift", b.ExpressShift))
	}
	if len(b.Settled) > 0 {
		d = append(d, to("ids", b.Settled))
	}
	if !b.Forgot.IsZero() {
		d = append(d, to("forgot", bson.NewDateTimeFromTime(b.Forgot)))
	}
	return d
}

func ledgersOf(s reservations.MeterState) bson.A {
	led := make(bson.A, len(s.Ledgers))
	for i, x := range s.Ledgers {
		led[i] = x
	}
	return led
}
