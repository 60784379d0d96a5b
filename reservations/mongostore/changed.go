package mongostore

import (
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/headway-go/headway/reservations"
)

// A bucket that was last used with a limit whose meters differ in name, order or filling: reservations.Step's change, as stages. It is not in
// the pipeline of every call: the usual one only finds a bucket of the same shape.

const (
	slowest, fastest = 1e-6, 1e6
	idleMost         = 16
	leastNormal      = 0x1p-1022 // of all numbers; what is divided by it is not divided by zero
)

// stored is every meter that the bucket has: those that stood idle, then those of the limit before (cur).
func stored() any {
	current := forEach(op("$range", 0, bson.D{to("$size", orElse("$meters", bson.A{}))}), "j", bson.D{
		to("name", element("$meters", "$$j")), to("at", "$at"), to("led", element("$led", "$$j")), to("was", element("$was", "$$j")),
		to("gap", orElse(element("$gap", "$$j"), 0.)), to("cur", true),
	})
	return op("$concatArrays", orElse("$idle", bson.A{}), current)
}

// changed is the stages that bring the bucket to the meters of the call. The field at is that of now, old is stored.
func changed() bson.A {
	v := variant{windows: true}
	isOld := bson.D{to("$not", list(op("$in", "$$o.name", "$call.meters.name")))}
	idle := forEach(where("$old", "o", isOld), "o", bson.D{
		to("name", "$$o.name"), to("at", smallest(list("$$o.at", "$at"))), to("led", v.unblocked()), to("was", "$$o.was"), to("gap", "$$o.gap"),
	})
	found := op("$indexOfArray", "$old.name", "$$k.name")
	led := forEach("$call.meters", "k", let("i", found,
		either(less("$$i", 0), forEach(list(0, 1, 2, 3, 4), "l", v.full("$at")), let("o", element("$old", "$$i"), v.refilled()))))
	gap := forEach("$call.meters", "k", let("i", found, either(less("$$i", 0), 0., orElse(element("$old.gap", "$$i"), 0.))))
	atLeast := func(end any) bson.D { return largest(list(reservations.Hold.Seconds(), end)) }
	faster := either(less(tolerance, "$ended"), smallest(list(fastest, largest(list(slowest, div(mul("$speed", "$wait"), "$waits"))))), 1.)
	return bson.A{
		set(to("led", led), to("gap", gap), to("idle", op("$slice", idle, -idleMost)), to("ended", v.lineEnded()),
			to("meters", "$call.meters.name"), to("was", "$call.meters"), to(fieldShape, "$call.shape"), to("call.meters", lefts())),
		set(to("keep", either(equal("$idle", bson.A{}), nil, largest(list("$keep", "$expires")))),
			to("wait", atLeast(sub("$ended", "$blocked"))), to("waits", atLeast(v.lineNeeds()))),
		set(to("moved", either(less(tolerance, "$ended"), v.replaced(),
			forEach(meterNumbers(), "j", bson.D{to("led", element("$led", "$$j")), to("gap", element("$gap", "$$j"))})))),
		set(to("led", "$moved.led"), to("gap", "$moved.gap"), to("speed", faster),
			to("shift", sub("$shift", mul("$blocked", sub(faster, "$speed"))))),
	}
}

// lineNeeds is how many seconds what the line asks of each meter needs, from now on or from the end of the block.
func (v variant) lineNeeds() any {
	asked := sub(1., element("$gap", "$$j"))
	debt := mul(-1., element("$led", "$$j", reservations.LedgerLine))
	needs := let("h", v.gain("$blocked"), sub(v.until(add("$$h", mul(asked, sub(debt, "$$h")))), "$blocked"))
	return largest(op("$concatArrays", list(0.), forEach(meterNumbers(), "j", let("k", element("$call.meters", "$$j"), needs))))
}

// replaced is led and gap of each meter when all times are $waits / $wait times as long as they were: those that only kept the time move.
func (v variant) replaced() any {
	times := div("$waits", "$wait")
	asked := sub(1., element("$gap", "$$j"))
	x := element("$led", "$$j", "$$i")
	moved := let("x", x, let("d", sub(mul(-1., "$$x"), "$$b"), either(all(less(0, "$$i"), less(0., "$$d")), sub(mul(mul(-1., "$$d"), "$$more"), "$$b"), "$$x")))
	gap := either(less(0., "$$more"), largest(list(0., sub(1., div(asked, largest(list("$$more", leastNormal)))))), 0.)
	one := let("more", largest(list(asked, mul(times, div("$$k.rate", "$$o.was.rate")))), let("b", v.gain("$blocked"), bson.D{to("led", rungs(moved)), to("gap", gap)}))
	stays := bson.D{to("led", element("$led", "$$j")), to("gap", element("$gap", "$$j"))}
	return forEach(meterNumbers(), "j", let("k", element("$call.meters", "$$j"), let("i", op("$indexOfArray", "$old.name", "$$k.name"),
		either(anyOf(less("$$i", 0), atMost(element("$gap", "$$j"), hardly)), stays,
			let("o", element("$old", "$$i"), either(all("$$o.cur", op("$gt", "$$o.was", nil)), one, stays))))))
}

// since is the seconds since the moment up to which $$o is filled.
func since() any { return div(largest(list(0, sub("$at", "$$o.at"))), 1000.) }

// endedSince is how many windows that are described by the variable k ended since then.
func endedSince(k string) bson.D {
	count := func(moment any) bson.D {
		return bson.D{to("$floor", div(sub(bson.D{to("$toLong", moment)}, k+".off"), k+".ms"))}
	}
	return largest(list(0., sub(count("$at"), count("$$o.at"))))
}

// lineEnded is how many seconds from now on the line would have ended, as its meters were filled so far. What is not known counts as none.
func (v variant) lineEnded() any {
	came := either(isWindow(), mul("$$k.fill", endedSince("$$k")), mul(since(), "$$k.rate"))
	line := smallest(list("$$k.cap", add(element("$$o.led", reservations.LedgerLine), came)))
	left := op("$mergeObjects", "$$o.was", bson.D{to("left", either(op("$gt", "$$o.was.ms", nil), leftOf("$$o.was"), 0.))})
	one := let("k", left, v.until(mul(-1., line)))
	return largest(op("$concatArrays", list(0.), forEach(where("$old", "o", "$$o.cur"), "o", either(op("$gt", "$$o.was", nil), one, 0.))))
}

// during is the tokens that come back to a meter, that of a variable, during the block.
func (v variant) during(meter string) any {
	left := either(op("$gt", meter+".win", nil), leftOf(meter), 0.)
	return let("k", op("$mergeObjects", meter, bson.D{to("left", left)}), v.gain("$blocked"))
}

// refilled is the ledgers of $$o as they are now, for the meter $$k.
func (v variant) refilled() any {
	wasWindow := op("$gt", "$$w.win", nil)
	sameStarts := all(equal("$$w.ms", "$$k.ms"), equal("$$w.off", "$$k.off"))
	rate := smallest(list("$$w.fill", "$$k.fill"))
	held := either("$$o.cur", sub(either(all(wasWindow, bson.D{to("$not", list(isWindow()))}), 0., v.during("$$w")), "$$d"), 0.)
	evenly := firstOf(list(mul(since(), smallest(list("$$w.rate", "$$k.rate"))), 0.), branch{wasWindow, list(0., 0.)})
	windowed := firstOf(list(mul(rate, smallest(list(endedSince("$$w"), endedSince("$$k")))), 0.),
		branch{bson.D{to("$not", list(wasWindow))}, list(0., 0.)},
		branch{sameStarts, list(mul("$$w.fill", endedSince("$$w")), sub("$$k.cap", "$$w.cap"))})
	ofUse := all(equal("$$i", reservations.LedgerUse), wasWindow, isWindow())                // a block has taken nothing from it
	return let("w", orElse("$$o.was", "$$k"), let("c", either(isWindow(), windowed, evenly), // what came, and what is moved
		let("d", v.during("$$k"), let("h", held, rungs(v.blockedAnew(smallest(list("$$k.cap",
			add(smallest(list("$$w.cap", add(element("$$o.led", "$$i"), element("$$c", 0)))), element("$$c", 1), either(ofUse, 0., "$$h"))))))))))
}

// unblocked is the ledgers of $$o, which goes, with the places as if nothing were blocked.
func (v variant) unblocked() any {
	x := element("$$o.led", "$$i")
	fills := all("$$o.cur", op("$gt", "$$o.was", nil), bson.D{to("$not", list(op("$gt", "$$o.was.win", nil)))})
	return either(fills, forEach(list(0, 1, 2, 3, 4), "i", either(less(0, "$$i"), add(x, v.during("$$o.was")), x)), "$$o.led")
}

// blockedAnew is ledger $$i of $$k, which is balance, where $$o stood idle: what the block in force keeps from coming back, $$d, is taken from it.
func (v variant) blockedAnew(balance any) any {
	late := less(0, "$$i")
	anew := v.choose(
		either(late, smallest(list("$$y", sub("$$k.cap", "$$d"))), "$$y"),
		either(late, sub("$$y", "$$d"), smallest(list("$$y", mul(-1., "$$d")))))
	return let("y", balance, either(all(bson.D{to("$not", list("$$o.cur"))}, less(0., "$blocked")), anew, "$$y"))
}
