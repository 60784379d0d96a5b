package mongostore

import (
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/headway-go/headway/reservations"
)

// advance moves the clock of the line on so far that the first who waits comes when ledger late has room for it: see advance of reservations.
func (v variant) advance() any {
	if v.windows && !v.changed { // of the limit: its line is not moved
		return literal(bson.D{})
	}
	lacks := mostOver(-reservations.MaxWait.Seconds(), "$$m", div(sub(smallest(list(v.withHead("$$k.n"), "$$k.cap")), element("$$k.L", reservations.LedgerLate)), "$$k.rate"))
	blocked := either(less(0., "$$s.blocked"), "$$s.blocked", -reservations.MaxWait.Seconds())
	wait := div(sub(div(sub("$$q.due", bson.D{to("$toLong", "$at")}), float64(time.Second/time.Millisecond)), "$$s.shift"), "$speed")
	moves := []any{equal("$$q.gen", "$gen")}
	if v.windows {
		moves = append(moves, noWindows())
	}
	e := largest(list(0., smallest(list(sub(wait, largest(list(lacks, blocked))), "$$q.for"))))
	return either(all(moves...), bson.D{to("shift", add("$$s.shift", mul(e, "$speed")))}, literal(bson.D{}))
}
