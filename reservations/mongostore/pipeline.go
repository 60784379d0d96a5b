package mongostore

import (
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/headway-go/headway/reservations"
)

// What reservations.Step has as constants of its own. The model check of storetest would notice a difference.
const (
	backwards   = time.Minute // the clock may run back so far without being followed
	ticketDelay = 0.05        // seconds
	tolerance   = 1e-6        // tokens
	atOnce      = 1e-8        // seconds
	// keepFull is how long a bucket is kept after it is full again.
	keepFull = time.Minute
)

// The update of one bucket: reservations.Step for each request, in order, as one pipeline.
//
// Input: the stored bucket, or nothing (a full one), and in the temporary field "call" (all else is the same in each call)
//
//	now       the server's clock
//	meters    of the limit, in its order: {name, cap, rate, max, slack}, and windowFields of windows; max and slack are left out where the plan is unlimited
//	requests  {op, for, here, hold, take, dry, n}: see requestDocument
//
// Output: the bucket after all requests (see fields in documents.go), with one answer for each in "out": {o: state, w: seconds
// until it starts or is due, s: shift in seconds}.
//
// A concurrent caller sees the bucket before or after all requests of a call, never between. Only its first writers can
// collide: both insert, one fails with a duplicate key and has changed nothing.
func pipeline(program bson.A, limit reservations.Limit, requests []reservations.Request, now any) bson.A {
	call := set(to("call", bson.D{
		to("now", now),
		to("meters", literal(meterDocuments(limit))),
		to("requests", literal(requestDocuments(requests))),
	}))
	return append(bson.A{call}, program...)
}

// encoded is the stages as bytes, so that a call need not encode them again. They are all ours: one that does not encode is a programmer's mistake.
func encoded(stages bson.A) bson.A {
	for i, stage := range stages {
		raw, err := bson.Marshal(stage)
		if err != nil {
			panic("mongostore: " + err.Error())
		}
		stages[i] = bson.Raw(raw)
	}
	return stages
}

// program is what all calls have in common whose meters fill like that.
func (f filling) program() bson.A {
	ranBack := less("$passed", -backwards.Milliseconds()) // too far to be ignored: followed, and the line's clock with it
	missing := "$call.now"                                // a bucket that is not there is as it was just now: full
	at := either(anyOf(less(0, "$passed"), ranBack), "$call.now", orElse("$at", missing))
	p := bson.A{
		set(to("passed", sub("$call.now", orElse("$at", missing)))), // milliseconds
		set(
			to("at", at),
			to("shift", add(orElse("$shift", 0.), either(ranBack, div("$passed", -1000.), 0.))),
			to("blocked", largest(list(0., sub(orElse("$blocked", 0.), div(largest(list(0, "$passed")), 1000.))))),
			to("gen", orElse("$gen", bson.D{to("$toLong", "$call.now")})),
			to("v", add(orElse("$v", int64(0)), bson.D{to("$size", "$call.requests")})),
			to("led", f.accrued(at)),
			to("meters", "$call.meters.name"),
		),
	}
	if f.windows {
		p = append(p, set(to("call.meters", lefts())))
	}
	return append(
		p,
		set(to("r", fold("$call.requests",
			bson.D{to("led", "$led"), to("shift", "$shift"), to("carry", orElse("$carry", 0.)), to("blocked", "$blocked"), to("out", bson.A{})},
			let("s", "$$value", let("q", "$$this", let("m", joined("$$s.led"), answered(firstOf(f.begin(),
				branch{equal("$$q.op", opBlock), f.block()},
				branch{equal("$$q.op", opSettle), f.settle()},
				branch{equal("$$q.op", opRelease), release()})))))))),
		set(to("led", "$r.led"), to("shift", "$r.shift"), to("carry", "$r.carry"), to("blocked", "$r.blocked"), to("out", "$r.out"),
			to("expires", f.expires("$r.led"))),
		bson.D{to("$unset", bson.A{"call", "passed", "r"})},
	)
}

// accrued is the ledgers in the order of the limit's meters, each filled by what came back. Meters are found by name: one that is
// new to the bucket is full, one that the limit no longer has is dropped.
func (f filling) accrued(at any) any {
	gone := div(largest(list(0, "$passed")), 1000.)
	stored := element("$led", "$$i")
	full := forEach(list(0, 1, 2, 3, 4), "l", f.full(at))
	return let("gone", gone, forEach("$call.meters", "k",
		let("i", op("$indexOfArray", orElse("$meters", bson.A{}), "$$k.name"),
			either(less("$$i", 0), full,
				let("came", f.came(), forEach(stored, "x", smallest(list("$$k.cap", add("$$x", "$$came")))))))))
}

// joined is the meters with their ledgers (L) and what the request asks of each (n).
func joined(led any) any {
	return forEach(op("$range", 0, bson.D{to("$size", "$call.meters")}), "j", op("$mergeObjects",
		element("$call.meters", "$$j"), bson.D{to("L", element(led, "$$j")), to("n", element("$$q.n", "$$j"))}))
}

// rungs is the five ledgers of a meter, body being the one at $$i; none is above the one before it.
func rungs(body any) any {
	return let("x", forEach(list(0, 1, 2, 3, 4), "i", body),
		forEach(list(1, 2, 3, 4, 5), "i", smallest(op("$slice", "$$x", "$$i"))))
}

// mostOver is the largest of least and body for each meter in over, bound to $$k.
func mostOver(least, over, body any) bson.D {
	return largest(op("$concatArrays", list(least), forEach(over, "k", body)))
}

// limited is the meters whose plan is bounded: a missing field is less than null.
func limited(meters any) bson.D { return where(meters, "k", op("$gt", "$$k.max", nil)) }

// wait is how many seconds pass until ledger i has room for the request in every meter and no block is left.
func (f filling) wait(i any) bson.D {
	return mostOver("$$s.blocked", "$$m", f.until(sub(smallest(list("$$k.n", "$$k.cap")), element("$$k.L", i))))
}

// slacked is the max_reserved of $$k less its slack once for each ledger between the plan and ledger i.
func slacked(i any) bson.D {
	return sub("$$k.max", mul(sub(i, reservations.LedgerPlan), "$$k.slack"))
}

// answered is the bucket after a request, with its answer appended. Change holds the fields that the request changes, and what is
// answered: o, w where it is not settled and zero.
func answered(change any) any {
	answer := bson.D{to("o", "$$a.o"), to("w", "$$a.w"), to("s", "$$a.shift")}
	return let("a", op("$mergeObjects", "$$s", bson.D{to("o", settled), to("w", 0.)}, change),
		op("$mergeObjects", "$$a", bson.D{to("out", op("$concatArrays", "$$s.out", list(answer)))}))
}

// begin covers begin, reserve (which never starts), take (which is given no place) and whatever is dry (and keeps nothing).
func (f filling) begin() any {
	charge := forEach("$$m", "k", rungs(
		either(all(atMost("$$do.lo", "$$i"), atMost("$$i", "$$do.hi")), f.charged("$$i", "$$do.w"), element("$$k.L", "$$i"))))
	return let("w", f.wait("$$q.here"), let("do", f.decision(), let("led", charge, bson.D{
		to("led", either("$$q.dry", "$$s.led", "$$led")), to("o", "$$do.o"),
		to("w", either(op("$in", "$$do.o", list(ticket, again)), add(f.back("$$led"), ticketDelay), "$$do.w")),
	})))
}

// decision is the next state (o), the first and last ledger to charge (lo, hi), and the seconds until the start (w).
func (f filling) decision() any {
	next := func(state string, lo, hi, w any) bson.D {
		return bson.D{to("o", state), to("lo", lo), to("hi", hi), to("w", w)}
	}
	fits := bson.D{to("$allElementsTrue", list(forEach(limited("$$m"), "k",
		atMost(mul(-1., f.charged("$$q.here", "$$w")), add(slacked("$$q.here"), tolerance)))))}
	return firstOf(next(again, reservations.LedgerAgain, reservations.LedgerAgain, f.wait(reservations.LedgerAgain)),
		branch{atMost("$$w", "$$q.hold"), next(started, reservations.LedgerUse, "$$q.here", "$$w")},
		branch{"$$q.take", next(refused, reservations.LedgerCount, reservations.LedgerCount, "$$w")}, // nothing is charged
		branch{atMost("$$q.here", reservations.LedgerLate), next(late, reservations.LedgerLate, reservations.LedgerLate, f.wait(reservations.LedgerLate))},
		branch{fits, next(reserved, reservations.LedgerPlan, "$$q.here", "$$w")},
		branch{equal("$$q.here", reservations.LedgerLine), next(ticket, reservations.LedgerLine, reservations.LedgerLine, f.wait(reservations.LedgerLine))})
}

// back is how many seconds pass until the charged ledger is within max_reserved again.
func (f filling) back(led any) any {
	return let("m", joined(led), mostOver(0., limited("$$m"), f.until(sub(mul(-1., slacked("$$do.lo")), element("$$k.L", "$$do.lo")))))
}

// settle gives tokens back (takes, where negative). Where tasks wait, the clock of the line moves instead.
func (f filling) settle() any {
	waiting := less(smallest(forEach("$$m", "k", element("$$k.L", reservations.LedgerLine))), 0.)
	took := less(smallest("$$q.n"), 0.)
	use := element("$$k.L", reservations.LedgerUse)
	owesMore := div(sub(smallest(list(0., add(use, "$$k.n"))), smallest(list(0., use))), "$$k.rate")
	setBack := smallest(forEach("$$m", "k", f.choose(0., owesMore)))
	room := smallest(forEach("$$m", "k", div(add(element("$$k.L", reservations.LedgerLate), "$$k.n"), "$$k.rate")))
	moved := firstOf(largest(list(0., smallest(list("$$gain", room)))),
		branch{op("$not", "$$waiting"), 0.},
		branch{took, setBack},
		branch{less(0., "$$s.blocked"), 0.})
	inLine := all("$$waiting", atMost(reservations.LedgerPlan, "$$i"))
	carry := either("$$waiting", smallest(list(sub("$$gain", largest(list(0., "$$e"))), reservations.Hold.Seconds())), 0.)
	return let("waiting", waiting,
		let("gain", add("$$s.carry", mostOver(0., "$$m", f.choose(0., div("$$k.n", "$$k.rate")))), // seconds by which the line could move
			let("e", moved, bson.D{
				to("led", given(either(inLine, f.choose(smallest(list(0., "$$k.n")), mul("$$e", "$$k.rate")), "$$k.n"))),
				to("shift", add("$$s.shift", "$$e")), to("carry", carry),
			})))
}

// release gives back to the ledgers in $$q.to. It is yield as well.
func release() any {
	return bson.D{to("led", given(either(op("$in", "$$i", "$$q.to"), "$$k.n", 0.)))}
}

// given is all ledgers with amount added at each $$i, up to the capacity.
func given(amount any) any {
	return forEach("$$m", "k", rungs(smallest(list("$$k.cap", add(element("$$k.L", "$$i"), amount)))))
}

// block lets nothing start for $$q.for seconds, unless the block that is there is longer.
func (f filling) block() any {
	led := element("$$k.L", "$$i")
	longer := let("e", sub("$$q.for", "$$s.blocked"), bson.D{
		to("led", forEach("$$m", "k", rungs(f.choose(
			smallest(list(led, sub("$$k.cap", f.gain("$$q.for")))),
			either(equal("$$i", reservations.LedgerUse),
				smallest(list(led, mul(mul(-1., "$$q.for"), "$$k.rate"))),
				sub(led, mul("$$e", "$$k.rate"))))))),
		to("shift", sub("$$s.shift", "$$e")), to("blocked", "$$q.for"),
	})
	return either(atMost("$$q.for", "$$s.blocked"), literal(bson.D{}), longer)
}

// expires is when every ledger will have been full for keepFull, and no block left. The last ledger is the lowest.
func (f filling) expires(led any) any {
	full := mostOver("$r.blocked",
		forEach(op("$range", 0, bson.D{to("$size", "$call.meters")}), "j", op("$mergeObjects",
			element("$call.meters", "$$j"), bson.D{to("x", element(led, "$$j", reservations.LedgerLine))})),
		f.until(sub("$$k.cap", "$$k.x")))
	milliseconds := mul(smallest(list(full, reservations.MaxWait.Seconds())), 1000.)
	return add("$at", bson.D{to("$toLong", milliseconds)}, keepFull.Milliseconds())
}
