package mongostore

import (
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/headway-go/headway/reservations"
)

// release gives back to the ledgers in $$q.to. It is yield as well.
func (v variant) release() any {
	released := given(either(op("$in", "$$i", "$$q.to"), "$$k.n", 0.))
	if v.headroom {
		return bson.D{to("led", released), to("x", forEach("$$m", "k", add("$$k.X", either("$$q.placed", "$$k.n", 0.))))}
	}
	if v.windows && !v.changed { // of the limit: nothing is closed
		return bson.D{to("led", released)}
	}
	closes := []any{op("$in", reservations.LedgerLine, "$$q.to"), atMost("$$s.blocked", 0.)}
	if v.windows {
		closes = append(closes, noWindows())
	}
	return either(all(closes...), closedGaps(released), bson.D{to("led", released)})
}

// closedGaps is the ledgers that were given back to, and the gaps, when what nobody asked for ends where those of asked end: see closeGaps of reservations.
func closedGaps(released any) any {
	asked := forEach(meterNumbers(), "j", largest(list(0., sub(askedFor(element("$$m.L", "$$j", reservations.LedgerLine)), element("$$m.n", "$$j")))))
	end := largest(op("$concatArrays", list(0.), forEach(meterNumbers(), "j", div(element("$$asked", "$$j"), element("$$m.rate", "$$j")))))
	brought := largest(list(element("$$x", "$$i"), smallest(list(element("$$x", reservations.LedgerLate), mul(mul(-1., "$$end"), element("$$m.rate", "$$j"))))))
	closed := forEach(meterNumbers(), "j", let("x", element("$$released", "$$j"),
		forEach(list(0, 1, 2, 3, 4), "i", either(atMost(reservations.LedgerPlan, "$$i"), brought, element("$$x", "$$i")))))
	gaps := forEach(meterNumbers(), "j", gapOf(element("$$asked", "$$j")))
	return let("asked", asked, let("end", end, let("released", released, let("led", closed, bson.D{to("led", "$$led"), to("gap", gaps)}))))
}
