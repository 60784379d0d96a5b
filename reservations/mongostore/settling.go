package mongostore

import (
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/headway-go/headway/reservations"
)

// settledMost is how many settlements a bucket remembers. As in reservations.
const settledMost = 64

// settleOnce is settle with what the request gives back or takes: for a sync what it has to be, for a settlement that the bucket remembers
// nothing, and for one that it may have forgotten only what takes.
func (v variant) settleOnce() any {
	var n any = "$$k.n"
	if v.ids { // known since before the last one was forgotten: those that take count
		stale := all(less(0, "$$q.age"), less(sub("$at", "$$q.age"), "$$s.forgot"))
		n = either(stale, smallest(list(0., "$$k.n")), "$$k.n")
	}
	if v.syncs {
		n = either(equal("$$q.op", opSync), v.unseen(), n)
	}
	if !v.ids && !v.syncs {
		return v.settle(nil)
	}
	again := func(change any) any {
		return let("m", forEach("$$m", "k", op("$mergeObjects", "$$k", bson.D{to("n", n)})), change)
	}
	if !v.ids {
		return again(v.settle(nil))
	}
	named := op("$gt", "$$q.id", nil) // a missing field is less than null
	return either(all(named, op("$in", "$$q.id", "$$s.ids")), literal(bson.D{}), again(v.settle(bson.D{
		to("ids", either(named, op("$slice", op("$concatArrays", "$$s.ids", list("$$q.id")), -settledMost), "$$s.ids")),
		to("forgot", either(all(named, atMost(settledMost, bson.D{to("$size", "$$s.ids")})), "$at", "$$s.forgot")),
	})))
}

// unseen is what $$k gets back (loses, where negative) so that use is what the provider said was left, and what came back since.
func (v variant) unseen() any {
	sinceThen := mul("$$q.for", "$$k.rate")
	count := func(moment any) bson.D { return bson.D{to("$floor", div(moment, "$$k.ms"))} }
	ended := mul("$$k.fill", sub(count(sinceStart("$at")), count(sub(sinceStart("$at"), mul("$$q.for", 1000.)))))
	seen := smallest(list("$$k.cap", add("$$k.n", v.choose(ended, sinceThen))))
	return let("d", sub(seen, element("$$k.L", reservations.LedgerUse)),
		either(less("$$k.n", 0), 0., either("$$q.up", "$$d", smallest(list(0., "$$d")))))
}

// settle gives $$k.n back (takes, where negative). Where tasks wait, the clock of the line moves instead. Also holds fields that change beside.
func (v variant) settle(also bson.D) any {
	var waiting any = less(smallest(forEach("$$m", "k", element("$$k.L", reservations.LedgerLine))), 0.)
	if v.headroom {
		waiting = ordinaryWaits("$$m")
	}
	took := less(smallest(forEach("$$m", "k", "$$k.n")), 0.)
	use := v.lessHead(element("$$k.L", reservations.LedgerUse))
	owesMore := div(sub(smallest(list(0., add(use, "$$k.n"))), smallest(list(0., use))), "$$k.rate")
	setBack := smallest(forEach("$$m", "k", v.choose(0., owesMore)))
	room := smallest(forEach("$$m", "k", div(add(v.lessHead(element("$$k.L", reservations.LedgerLate)), "$$k.n"), "$$k.rate")))
	moved := firstOf(largest(list(0., smallest(list("$$gain", room)))),
		branch{op("$not", "$$waiting"), 0.},
		branch{took, setBack},
		branch{less(0., "$$s.blocked"), 0.})
	inLine := all("$$waiting", atMost(reservations.LedgerPlan, "$$i"))
	carry := either("$$waiting", smallest(list(sub("$$gain", largest(list(0., "$$e"))), reservations.Hold.Seconds())), 0.)
	change := append(bson.D{
		to("led", given(either(inLine, v.choose(smallest(list(0., "$$k.n")), mul("$$e", "$$k.rate")), "$$k.n"))),
		to("shift", add("$$s.shift", mul("$$e", "$speed"))), to("carry", carry),
	}, also...)
	var whole any
	if v.headroom {
		whole = settledExpress(change)
	} else {
		whole = append(change, to("owed", either("$$waiting", v.owes(sub(mul("$$e", "$$k.rate"), "$$k.n")), "$$s.owed")))
	}
	return let("waiting", waiting,
		let("gain", add("$$s.carry", mostOver(0., "$$m", v.choose(0., div("$$k.n", "$$k.rate")))), // seconds by which the line could move
			let("e", moved, whole)))
}
