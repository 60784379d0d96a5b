package mongostore

import (
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/headway-go/headway/reservations"
)

// What reservations.Step does about that which a full bucket loses: see overflow.go there. In the meters that the requests see (m), O is what is owed.

// apart is how far ledger late of a meter is above ledger plan.
func apart(l any) any {
	return sub(element(l, reservations.LedgerLate), element(l, reservations.LedgerPlan))
}

// owedBefore is the field owed with what the ledgers were apart, before the field led is filled.
func owedBefore() any {
	return forEach(meterNumbers(), "j", orElse(add(orElse(element("$owed", "$$j"), 0.), apart(element("$led", "$$j"))), 0.))
}

// overflow is what the line counts on and will not find, of a bucket that was last used with the same meters: it is as much more as the ledgers came nearer to each
// other.
func (v variant) overflow() any {
	owed := let("a", apart(element("$led", "$$j")), either(all(less(0, "$passed"), less("$$a", tolerance)), 0., sub(element("$owed", "$$j"), "$$a")))
	if v.windows {
		owed = let("k", element("$call.meters", "$$j"), v.choose(0., owed))
	}
	return forEach(meterNumbers(), "j", owed)
}

// owes is what is owed with amount more for each $$k.
func (v variant) owes(amount any) any {
	return forEach("$$m", "k", v.choose("$$k.O", add("$$k.O", amount)))
}

// owesPlanned is what is owed after the decision $$do: no plan counts on what it knows to be lost, nor on what it learns now.
func (v variant) owesPlanned() any {
	plan := element("$$k.L", reservations.LedgerPlan)
	known := smallest(list(0., sub(sub("$$k.cap", v.gain(v.start())), plan)))
	if !v.misses {
		return v.owes(either(equal("$$do.lo", reservations.LedgerPlan), known, 0.))
	}
	late := v.charged(reservations.LedgerLate, "$$do.w")
	learned := smallest(list(0., sub(late, plan)))
	planned := firstOf(0., branch{equal("$$do.lo", reservations.LedgerPlan), known}, branch{equal("$$q.here", reservations.LedgerLate), learned})
	return v.owes(sub(planned, mul("$$e", "$$k.rate")))
}

// ahead is how many seconds the line is ahead, as far as a full bucket is the cause, where a reserved task finds nothing for longer than it may hold after its time.
func (v variant) ahead() any {
	early := largest(list(0., div(sub(div(sub("$$q.due", bson.D{to("$toLong", "$at")}), 1000.), "$$s.shift"), "$speed"))) // a missing due counts as none
	w := v.until(sub(smallest(list("$$k.n", "$$k.cap")), element("$$k.L", reservations.LedgerLate)))
	missing := all(less(reservations.Hold.Seconds()+tolerance, "$$until"), less(overdue, sub("$$until", "$$early")))
	ahead := let("early", early, mostOver(0., "$$m", let("until", w, either(missing, v.choose(0., div("$$k.O", "$$k.rate")), 0.))))
	return either(all(equal("$$q.here", reservations.LedgerLate), less(0., "$$w"), atMost("$$s.blocked", 0.)), ahead, 0.)
}

// delayed is the meters when the ordinary line is set back by $$e seconds.
func (v variant) delayed() any {
	led := element("$$k.L", "$$i")
	later := either(atMost(reservations.LedgerPlan, "$$i"), v.choose(led, sub(led, mul("$$e", "$$k.rate"))), led)
	return forEach("$$m", "k", op("$mergeObjects", "$$k", bson.D{to("L", rungs(later))}))
}
