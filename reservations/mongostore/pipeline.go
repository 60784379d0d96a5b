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
	hardly      = 1e-9        // tokens
	overdue     = .125        // seconds
	// keepFull is how long a bucket is kept after it is full again.
	keepFull = time.Minute
)

// The update of one bucket: reservations.Step for each request, in order, as one pipeline.
//
// Input: the stored bucket, or nothing (a full one), and in the temporary field "call" (all else is the same in each call)
//
//	now       the server's clock
//	shape     of the limit's meters
//	meters    of the limit, in its order: see meterDocument
//	share     of ordinary tasks while urgent ones wait; only where the limit has headroom
//	most      how many seconds ahead the plan may promise, to who looks at the ledger plan, again, line; only where MaxWait bounds it
//	requests  {op, for, here, hold, take, dry, n, ...}: see requestDocument
//
// Output: the bucket after all requests (see fields in documents.go), with one answer for each in "out": {o: state, w: seconds
// until it starts or is due, s: shift in seconds, x: that of urgent tasks}.
//
// A concurrent caller sees the bucket before or after all requests of a call, never between. Only its first writers can
// collide: both insert, one fails with a duplicate key and has changed nothing.
func pipeline(program bson.A, limit reservations.Limit, requests []reservations.Request, now any) bson.A {
	call := bson.D{
		to("now", now),
		to(fieldShape, shapeOf(limit)),
		to("meters", literal(meterDocuments(limit))),
		to("requests", literal(requestDocuments(requests, limit.HasHeadroom()))),
	}
	if limit.HasHeadroom() {
		call = append(call, to("share", limit.Share()))
	}
	if limit.MaxWait > 0 {
		most, slack := limit.MaxWait.Seconds(), limit.WaitSlack().Seconds()
		call = append(call, to("most", list(most, most-slack, most-2*slack)))
	}
	return append(bson.A{set(to("call", call))}, program...)
}

// program is what all calls of a variant have in common.
func (v variant) program() bson.A {
	ranBack := less("$passed", -backwards.Milliseconds()) // too far to be ignored: followed, and the line's clock with it
	missing := "$call.now"                                // a bucket that is not there is as it was just now: full
	at := either(anyOf(less(0, "$passed"), ranBack), "$call.now", orElse("$at", missing))
	gone := div(largest(list(0, "$passed")), 1000.)
	moved := either(ranBack, div("$passed", -1000.), mul(gone, sub(orElse("$speed", 1.), 1.)))
	passed := to("passed", sub("$call.now", orElse("$at", missing))) // milliseconds
	time := []bson.E{
		to("at", at),
		to("shift", add(orElse("$shift", 0.), moved)),
		to("blocked", largest(list(0., sub(orElse("$blocked", 0.), gone)))),
		to("gen", orElse("$gen", bson.D{to("$toLong", "$call.now")})),
		to("v", add(orElse("$v", int64(0)), bson.D{to("$size", "$call.requests")})),
	}
	if v.headroom {
		time = append(time, to("xshift", sub(orElse("$xshift", 0.), either(ranBack, div("$passed", 1000.), 0.))))
	}
	if v.changed {
		p := bson.A{set(passed, to("old", stored())), set(append(time, to("speed", orElse("$speed", 1.)))...)}
		p = append(p, changed()...)
		if v.headroom {
			p = append(p, unknownExpress())
		} else {
			p = append(p, set(to("owed", forEach(meterNumbers(), "j", 0.))))
		}
		return append(p, v.answers()...)
	}
	nobody := all(less(0, "$passed"), atMost(0., smallest(forEach("$led", "l", element("$$l", reservations.LedgerLine)))))
	speed := bson.D{to("speed", either(nobody, 1., orElse("$speed", 1.)))}
	if v.windows {
		speed = append(speed, to("call.meters", lefts()))
	}
	if !v.headroom {
		speed = append(speed, to("owed", v.overflow()))
	}
	if v.headroom {
		time = append(time, to("pace", storedPace()))
	} else {
		time = append(time, to("owed", owedBefore()))
	}
	p := bson.A{
		set(passed),
		set(append(time, to("led", v.accrued(at, gone)), to("meters", "$call.meters.name"), to("was", "$call.meters"), to(fieldShape, "$call.shape"))...),
		set(speed...),
	}
	if v.headroom {
		p = append(p, accruedExpress(gone))
	}
	return append(p, v.answers()...)
}

// answers folds the requests into the bucket.
func (v variant) answers() bson.A {
	initial := bson.D{to("led", "$led"), to("owed", "$owed"), to("shift", "$shift"), to("carry", orElse("$carry", 0.)), to("blocked", "$blocked"), to("out", bson.A{})}
	result := []bson.E{to("led", "$r.led"), to("owed", "$r.owed"), to("shift", "$r.shift"), to("carry", "$r.carry"), to("blocked", "$r.blocked"), to("out", "$r.out"), to("expires", v.expires("$r.led"))}
	if v.headroom {
		initial = append(initial, to("x", "$express"), to("xs", "$xshift"))
		result = append(result, to("express", "$r.x"), to("xshift", "$r.xs"))
	}
	if v.begins || v.releases {
		initial = append(initial, to("gap", orElse("$gap", bson.A{})))
		result = append(result, to("gap", "$r.gap"))
	}
	if v.ids {
		initial = append(initial, to("ids", orElse("$ids", bson.A{})), to("forgot", orElse("$forgot", nil)))
		result = append(result, to("ids", "$r.ids"), to("forgot", "$r.forgot"))
	}
	var branches []branch
	if v.blocks {
		branches = append(branches, branch{equal("$$q.op", opBlock), v.block()})
	}
	if v.settles {
		branches = append(branches, branch{op("$in", "$$q.op", list(opSettle, opSync)), v.settleOnce()})
	}
	if v.releases {
		branches = append(branches, branch{equal("$$q.op", opRelease), v.release()})
	}
	if v.loses {
		branches = append(branches, branch{equal("$$q.op", opLose), bson.D{to("owed", v.owes("$$k.n"))}})
	}
	if v.advances {
		branches = append(branches, branch{equal("$$q.op", opAdvance), v.advance()})
	}
	body := v.begin()
	if v.urgent && v.begins {
		body = either("$$q.urgent", v.urgently(), body)
	}
	if !v.begins {
		body, branches = branches[0].then, branches[1:]
	}
	if len(branches) > 0 {
		body = firstOf(body, branches...)
	}
	return bson.A{
		set(to("r", fold("$call.requests", initial, let("s", "$$value", let("q", "$$this", let("m", v.joined("$$s.led"), v.answered(body))))))),
		set(result...),
		bson.D{to("$unset", v.temporary())},
	}
}

func (v variant) temporary() bson.A {
	fields := bson.A{"call", "passed", "r"}
	if v.changed {
		fields = append(fields, "old", "ended", "wait", "waits", "moved")
	}
	switch {
	case v.headroom:
		fields = append(fields, "pace")
	case v.changed: // of the meters that were
		fields = append(fields, "express")
	}
	return fields
}

// accrued is the ledgers of a bucket that was last used with the same meters, each filled by what came back.
func (v variant) accrued(at, gone any) any {
	full := forEach("$call.meters", "k", forEach(list(0, 1, 2, 3, 4), "l", v.full(at)))
	filled := let("gone", gone, forEach(meterNumbers(), "j", let("k", element("$call.meters", "$$j"),
		let("came", v.came(), forEach(element("$led", "$$j"), "x", smallest(list("$$k.cap", add("$$x", "$$came"))))))))
	return either(op("$gt", "$led", nil), filled, full)
}

// meterNumbers is 0, 1, ... for each meter of the limit.
func meterNumbers() bson.D { return op("$range", 0, bson.D{to("$size", "$call.meters")}) }

// joined is the meters with their ledgers (L) and what the request asks of each (n).
func (v variant) joined(led any) any {
	beside := bson.D{to("L", element(led, "$$j")), to("O", element("$$s.owed", "$$j")), to("n", element("$$q.n", "$$j"))}
	if v.headroom {
		beside = append(beside, to("X", element("$$s.x", "$$j")))
	}
	return forEach(meterNumbers(), "j", op("$mergeObjects", element("$call.meters", "$$j"), beside))
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
func (v variant) wait(i any) bson.D {
	return mostOver("$$s.blocked", "$$m", v.until(sub(smallest(list(v.withHead("$$k.n"), "$$k.cap")), element("$$k.L", i))))
}

// slacked is the max_reserved of $$k less its slack once for each ledger between the plan and ledger i.
func slacked(i any) bson.D {
	return sub("$$k.max", mul(sub(i, reservations.LedgerPlan), "$$k.slack"))
}

// most is how many seconds ahead the plan may promise to who looks at ledger i.
func most(i any) any { return element("$call.most", sub(i, reservations.LedgerPlan)) }

// answered is the bucket after a request, with its answer appended. Change holds the fields that the request changes, and what is
// answered: o, w where it is not settled and zero.
func (v variant) answered(change any) any {
	answer := bson.D{to("o", "$$a.o"), to("w", "$$a.w"), to("s", "$$a.shift")}
	if v.headroom {
		answer = append(answer, to("x", "$$a.xs"))
	}
	return let("a", op("$mergeObjects", "$$s", bson.D{to("o", settled), to("w", 0.)}, change),
		op("$mergeObjects", "$$a", append(bson.D{to("out", op("$concatArrays", "$$s.out", list(answer)))}, v.ordered()...)))
}

// begin covers begin, reserve (which never starts), take (which is given no place) and whatever is dry (and keeps nothing).
func (v variant) begin() any {
	charge := forEach("$$m", "k", rungs(
		either(all(atMost("$$do.lo", "$$i"), atMost("$$i", "$$do.hi")), v.charged("$$i", v.start()), element("$$k.L", "$$i"))))
	if v.headroom {
		return v.beginBesideUrgent(charge)
	}
	change := bson.D{
		to("led", either("$$q.dry", "$$s.led", "$$led")), to("o", "$$do.o"),
		to("w", either(op("$in", "$$do.o", list(ticket, again)), add(v.back("$$led"), ticketDelay), "$$do.w")),
		to("owed", either("$$q.dry", "$$s.owed", v.owesPlanned())), newGaps(),
	}
	if !v.misses {
		return let("w", v.wait("$$q.here"), let("do", v.decision(), let("led", charge, change)))
	}
	change = append(change, to("shift", either("$$q.dry", "$$s.shift", sub("$$s.shift", mul("$$e", "$speed")))))
	return let("w", v.wait("$$q.here"), let("e", v.ahead(), let("m", v.delayed(), let("do", v.decision(), let("led", charge, change)))))
}

// newGaps is the field gap after the decision $$do.
func newGaps() bson.E {
	placed := all(equal("$$q.here", reservations.LedgerLine), op("$in", "$$do.o", list(ticket, reserved)), op("$not", "$$q.dry"))
	return to("gap", either(placed, gaps(), "$$s.gap"))
}

// gaps is which part of the line's debt of each meter nobody asked for, after a newcomer was given a place.
func gaps() any {
	asked := add(askedFor(element("$$k.L", reservations.LedgerLine)), "$$k.n")
	return forEach(meterNumbers(), "j", let("k", element("$$m", "$$j"), gapOf(asked)))
}

// askedFor is which part of a debt of the line of meter $$j was asked for; line is its ledger.
func askedFor(line any) bson.D {
	return mul(sub(1., orElse(element("$$s.gap", "$$j"), 0.)), largest(list(0., mul(-1., line))))
}

// gapOf is which part of the line's debt of meter $$j in $$led was not asked for.
func gapOf(asked any) any {
	return let("d", mul(-1., element("$$led", "$$j", reservations.LedgerLine)),
		either(less(hardly, "$$d"), largest(list(0., sub(1., div(asked, largest(list("$$d", hardly)))))), 0.))
}

// decision is the next state (o), the first and last ledger to charge (lo, hi), and the seconds until it is due (w).
func (v variant) decision() any {
	next := func(state string, lo, hi, w any) bson.D {
		return bson.D{to("o", state), to("lo", lo), to("hi", hi), to("w", w)}
	}
	var fits any = bson.D{to("$allElementsTrue", list(forEach(limited("$$m"), "k",
		atMost(v.withHead(mul(-1., v.charged("$$q.here", v.from()))), add(slacked("$$q.here"), tolerance)))))}
	if v.bounded {
		fits = all(atMost("$$w", most("$$q.here")), fits)
	}
	var branches []branch
	if v.headroom { // it keeps its place, and is not charged
		branches = append(branches, branch{all(less(0., "$$e"), less("$$q.hold", "$$w"), atMost("$$w", "$$owed")), next(reserved, reservations.LedgerCount, reservations.LedgerCount, "$$w")})
	}
	return firstOf(next(again, reservations.LedgerAgain, reservations.LedgerAgain, v.wait(reservations.LedgerAgain)), append(branches,
		branch{atMost("$$w", "$$q.hold"), next(started, reservations.LedgerUse, "$$q.here", "$$w")},
		branch{"$$q.take", next(refused, reservations.LedgerCount, reservations.LedgerCount, "$$w")}, // nothing is charged
		branch{atMost("$$q.here", reservations.LedgerLate), next(late, reservations.LedgerLate, reservations.LedgerLate, v.wait(reservations.LedgerLate))},
		branch{fits, next(reserved, reservations.LedgerPlan, "$$q.here", "$$w")},
		branch{equal("$$q.here", reservations.LedgerLine), next(ticket, reservations.LedgerLine, reservations.LedgerLine, v.wait(reservations.LedgerLine))})...)
}

// from is the seconds until a place in the plan can start at the earliest, and start those until the start that $$do charges.
func (v variant) from() any {
	if v.leads {
		return largest(list("$$w", "$$q.lead")) // a missing lead counts as none
	}
	return "$$w"
}

func (v variant) start() any {
	if v.leads {
		return either(equal("$$do.o", reserved), v.from(), "$$do.w")
	}
	return "$$do.w"
}

// back is how many seconds pass until the charged ledger is within max_reserved again.
func (v variant) back(led any) any {
	var soonest any = 0.
	if v.bounded {
		soonest = largest(list(0., sub("$$do.w", most("$$do.lo"))))
	}
	return let("m", v.joined(led), mostOver(soonest, limited("$$m"), v.until(sub(v.withHead(mul(-1., slacked("$$do.lo"))), element("$$k.L", "$$do.lo")))))
}

// given is all ledgers with amount added at each $$i, up to the capacity.
func given(amount any) any {
	return forEach("$$m", "k", rungs(smallest(list("$$k.cap", add(element("$$k.L", "$$i"), amount)))))
}

// block lets nothing start for $$q.for seconds, unless the block that is there is longer.
func (v variant) block() any {
	if v.headroom {
		return v.blockBesideUrgent()
	}
	led := element("$$k.L", "$$i")
	longer := let("e", sub("$$q.for", "$$s.blocked"), bson.D{
		to("led", forEach("$$m", "k", rungs(v.choose(
			either(equal("$$i", reservations.LedgerUse), led, smallest(list(led, sub("$$k.cap", v.gain("$$q.for"))))),
			either(equal("$$i", reservations.LedgerUse),
				smallest(list(led, mul(mul(-1., "$$q.for"), "$$k.rate"))),
				sub(led, mul("$$e", "$$k.rate"))))))),
		to("shift", sub("$$s.shift", mul("$$e", "$speed"))), to("blocked", "$$q.for"), to("w", "$$q.for"),
	})
	return either(atMost("$$q.for", "$$s.blocked"), bson.D{to("w", "$$s.blocked")}, longer)
}

// expires is when every ledger will have been full for keepFull, and no block left, and not before keep.
func (v variant) expires(led any) any {
	full := mostOver("$r.blocked", withLine(led), v.until(sub("$$k.cap", "$$k.x")))
	if v.headroom {
		full = largest(list(full, expressFull()))
	}
	milliseconds := mul(smallest(list(full, reservations.MaxWait.Seconds())), 1000.)
	return largest(list("$keep", add("$at", bson.D{to("$toLong", milliseconds)}, keepFull.Milliseconds())))
}

// withLine is the meters with their last ledger (x), which is the lowest.
func withLine(led any) any {
	return forEach(meterNumbers(), "j", op("$mergeObjects",
		element("$call.meters", "$$j"), bson.D{to("x", element(led, "$$j", reservations.LedgerLine))}))
}
