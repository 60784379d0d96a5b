package mongostore

import (
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/headway-go/headway/reservations"
)

// What reservations.Step does beside for a limit with headroom. It is in the pipeline of no other. In the meters that the requests see (m), X is express and O
// is what is owed.

// withHead is x and the headroom of $$k, where the limit has some.
func (v variant) withHead(x any) any {
	if !v.headroom {
		return x
	}
	return add(x, "$$k.head")
}

// lessHead is x less the headroom of $$k, where the limit has some.
func (v variant) lessHead(x any) any {
	if !v.headroom {
		return x
	}
	return sub(x, "$$k.head")
}

func allTrue(of any) bson.D { return bson.D{to("$allElementsTrue", list(of))} }

// ordinaryWaits says whether an ordinary task waits.
func ordinaryWaits(meters any) any {
	return allTrue(forEach(meters, "k", less(element("$$k.L", reservations.LedgerLine), sub(element("$$k.L", reservations.LedgerUse), tolerance))))
}

// storedPace is the part of the rate at which express filled since the bucket was stored.
func storedPace() any {
	waits := allTrue(forEach("$led", "l", less(element("$$l", reservations.LedgerLine), sub(element("$$l", reservations.LedgerUse), tolerance))))
	return either(op("$gt", "$led", nil), either(waits, sub(1., "$call.share"), 1.), 1.)
}

// accruedExpress is the stage that fills express, and forgets what is owed where the line can't count on it any more. The field led is filled already.
func accruedExpress(gone any) bson.D {
	use := element("$led", "$$j", reservations.LedgerUse)
	filled := add(element("$express", "$$j"), mul(mul("$$gone", element("$call.meters.rate", "$$j")), "$pace"))
	express := let("gone", gone, forEach(meterNumbers(), "j", smallest(list(use, orElse(filled, use)))))
	counts := anyOf(atMost("$passed", 0), all(less("$pace", 1.), less(use, element("$call.meters.cap", "$$j"))))
	owed := forEach(meterNumbers(), "j", either(all(counts, op("$gt", "$express", nil)), largest(list(0., orElse(element("$owed", "$$j"), 0.))), 0.))
	return set(to("express", express), to("owed", owed))
}

// unknownExpress is the same for a bucket whose meters have changed.
func unknownExpress() bson.D {
	return set(to("express", forEach(meterNumbers(), "j", element("$led", "$$j", reservations.LedgerUse))), to("owed", forEach(meterNumbers(), "j", 0.)))
}

// expressFull is how many seconds pass at most until express is at the capacity.
func expressFull() any {
	return largest(forEach(meterNumbers(), "j", div(sub(element("$call.meters.cap", "$$j"), element("$r.x", "$$j")),
		mul(element("$call.meters.rate", "$$j"), sub(1., "$call.share")))))
}

// ordered keeps express at or below use in the bucket a.
func (v variant) ordered() bson.D {
	if !v.headroom {
		return nil
	}
	return bson.D{to("x", forEach(meterNumbers(), "j", smallest(list(element("$$a.x", "$$j"), element("$$a.led", "$$j", reservations.LedgerUse)))))}
}

// beginBesideUrgent is begin for ordinary tasks: a reserved one that finds no room because of urgent starts sets the line back.
func (v variant) beginBesideUrgent(charge any) any {
	owed := mostOver(0., "$$m", div("$$k.O", "$$k.rate"))
	learns := all(equal("$$q.here", reservations.LedgerLate), less(0., "$$w"))
	return let("w", v.wait("$$q.here"), let("owed", owed, let("e", either(learns, smallest(list("$$w", "$$owed")), 0.),
		let("m", v.delayed(), let("do", v.decision(), let("led", charge, bson.D{
			to("led", either("$$q.dry", "$$s.led", "$$led")), to("o", "$$do.o"),
			to("owed", either("$$q.dry", "$$s.owed", forEach("$$m", "k", largest(list(0., sub("$$k.O", mul("$$e", "$$k.rate"))))))),
			to("shift", either("$$q.dry", "$$s.shift", sub("$$s.shift", mul("$$e", "$speed")))),
			to("w", either(op("$in", "$$do.o", list(ticket, again)), add(v.back("$$led"), ticketDelay), "$$do.w")), newGaps(),
		}))))))
}

// urgently is begin, reserve and take for urgent tasks.
func (v variant) urgently() any {
	n := smallest(list("$$k.n", "$$k.cap"))
	use := mostOver("$$s.blocked", "$$m", div(sub(n, element("$$k.L", reservations.LedgerUse)), "$$k.rate"))
	pace := either(ordinaryWaits("$$m"), sub(1., "$call.share"), 1.)
	w := largest(list("$$use", mostOver(0., "$$m", div(sub(n, "$$k.X"), mul("$$k.rate", "$$pace")))))
	place := bson.D{to("o", express), to("w", "$$w"), to("x", forEach("$$m", "k", sub("$$k.X", "$$k.n")))}
	change := firstOf(place,
		branch{atMost("$$when", "$$q.hold"), v.startUrgent()},
		branch{"$$q.take", bson.D{to("o", refused), to("w", "$$w")}})
	return let("use", use, let("pace", pace, let("w", w, let("when", either("$$q.placed", "$$use", "$$w"),
		let("c", change, either("$$q.dry", bson.D{to("o", "$$c.o"), to("w", "$$c.w")}, "$$c"))))))
}

// startUrgent charges use and late, and sets the ordinary line back until the headroom is there again.
func (v variant) startUrgent() any {
	charged := forEach("$$m", "k", op("$mergeObjects", "$$k", bson.D{
		to("U", v.charged(reservations.LedgerUse, "$$when")), to("T", v.charged(reservations.LedgerLate, "$$when")),
	}))
	later := sub(debt("$$k.U"), debt(element("$$k.L", reservations.LedgerUse)))
	led := firstOf(sub(element("$$k.L", "$$i"), mul("$$e", "$$k.rate")),
		branch{equal("$$i", reservations.LedgerUse), "$$k.U"}, branch{equal("$$i", reservations.LedgerLate), "$$k.T"})
	return let("m", charged, let("e", largest(list(0., later)), bson.D{
		to("o", started), to("w", "$$when"), to("led", forEach("$$m", "k", rungs(led))),
		to("x", forEach("$$m", "k", either("$$q.placed", "$$k.X", sub("$$k.X", "$$k.n")))),
		to("owed", forEach("$$m", "k", largest(list(0., sub(add("$$k.O", "$$k.n"), mul("$$e", "$$k.rate")))))),
		to("shift", sub("$$s.shift", mul("$$e", "$speed"))),
	}))
}

// debt is how many seconds pass until the headroom is there again.
func debt(use any) any { return mostOver(0., "$$m", div(sub("$$k.head", use), "$$k.rate")) }

// settledExpress is change, what a settlement does to the ordinary tasks, and what it does to the urgent ones.
func settledExpress(change bson.D) any {
	given := div("$$k.n", "$$k.rate")
	least, most := smallest(op("$concatArrays", list(0.), forEach("$$m", "k", given))), mostOver(0., "$$m", given)
	use := smallest(list("$$k.cap", add(element("$$k.L", reservations.LedgerUse), "$$k.n")))
	room := smallest(forEach("$$m", "k", div(use, "$$k.rate")))
	moved := let("least", least, firstOf(largest(list(0., smallest(list(most, room)))),
		branch{less("$$least", 0.), "$$least"},
		branch{less(0., "$$s.blocked"), 0.}))
	waits := less(smallest(forEach("$$m", "k", "$$k.X")), -tolerance)
	return let("waits", waits, let("ex", either("$$waits", moved, 0.), append(change,
		to("x", forEach("$$m", "k", add("$$k.X", either("$$waits", mul("$$ex", "$$k.rate"), "$$k.n")))), to("xs", add("$$s.xs", "$$ex")))))
}

// blockBesideUrgent is block: both lines are set back, and the ordinary one until the headroom is there again, which fills when the block ends.
func (v variant) blockBesideUrgent() any {
	led := element("$$k.L", "$$i")
	full := mostOver(0., "$$m", div("$$k.head", "$$k.rate"))
	back := largest(list(0., sub(full, sub(debt(element("$$k.L", reservations.LedgerUse)), "$$s.blocked"))))
	moved := firstOf(sub(led, mul(add("$$e", "$$back"), "$$k.rate")),
		branch{equal("$$i", reservations.LedgerUse), smallest(list(led, mul(mul(-1., "$$q.for"), "$$k.rate")))},
		branch{equal("$$i", reservations.LedgerLate), sub(led, mul("$$e", "$$k.rate"))})
	longer := let("e", sub("$$q.for", "$$s.blocked"), let("back", back, bson.D{
		to("led", forEach("$$m", "k", rungs(moved))),
		to("x", forEach("$$m", "k", sub("$$k.X", mul("$$e", "$$k.rate")))), to("xs", sub("$$s.xs", "$$e")),
		to("shift", sub("$$s.shift", mul(add("$$e", "$$back"), "$speed"))), to("blocked", "$$q.for"), to("w", "$$q.for"),
	}))
	return either(atMost("$$q.for", "$$s.blocked"), bson.D{to("w", "$$s.blocked")}, longer)
}
