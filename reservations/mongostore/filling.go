package mongostore

import (
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/headway-go/headway/reservations"
)

// windowPart is how much of a window rounding may take, where a wait is counted in windows. As in reservations.
const windowPart = 1e-6

// isWindow says whether $$k is one: a missing field is less than null.
func isWindow() bson.D { return op("$gt", "$$k.win", nil) }

// noWindows says that no meter of $$m is a window.
func noWindows() bson.D { return op("$not", op("$anyElementTrue", forEach("$$m", "k", isWindow()))) }

// choose is window where $$k is one, and bucket otherwise.
func (v variant) choose(window, bucket any) any {
	if !v.windows {
		return bucket
	}
	return either(isWindow(), window, bucket)
}

// sinceStart is the milliseconds of the moment since a window started, long ago.
func sinceStart(moment any) bson.D {
	return sub(bson.D{to("$toLong", moment)}, "$$k.off")
}

// full is the balance of $$k at a moment where it has never been used.
func (v variant) full(at any) any {
	ahead := bson.D{to("$floor", div(sub(bson.D{to("$toLong", at)}, "$$k.start"), "$$k.ms"))}
	return v.choose(add("$$k.cap", mul("$$k.fill", smallest(list(0., ahead)))), "$$k.cap")
}

// came is the tokens that came back to $$k since $at, in $$gone seconds, where the bucket was last used with the same meters.
func (v variant) came() any {
	count := func(moment any) bson.D { return bson.D{to("$floor", div(sinceStart(moment), "$$k.ms"))} }
	ended := sub(count("$call.now"), count(orElse("$at", "$call.now")))
	return v.choose(either(less(0, "$passed"), mul("$$k.fill", ended), 0.), mul("$$gone", "$$k.rate"))
}

// leftOf is the seconds that are left now of the window that the variable or field k describes.
func leftOf(k string) bson.D {
	return div(sub(k+".ms", op("$mod", sub(bson.D{to("$toLong", "$at")}, k+".off"), k+".ms")), 1000.)
}

// lefts is the meters of the call with the seconds that are left of each one's window.
func lefts() any {
	return forEach("$call.meters", "k", either(isWindow(), op("$mergeObjects", "$$k", bson.D{to("left", leftOf("$$k"))}), "$$k"))
}

// gain is the tokens that come back to $$k in the next w seconds.
func (v variant) gain(w any) any {
	ended := bson.D{to("$floor", add(div(sub(w, "$$k.left"), "$$k.win"), 1+windowPart))}
	return v.choose(mul("$$k.fill", largest(list(0., ended))), mul(w, "$$k.rate"))
}

// windows is how many windows have to end for x tokens to come back to $$k.
func windows(x any) bson.D { return bson.D{to("$ceil", sub(div(x, "$$k.fill"), windowPart))} }

// until is how many seconds pass until x tokens have come back to $$k.
func (v variant) until(x any) any {
	if !v.windows {
		return div(x, "$$k.rate")
	}
	return let("u", x, v.choose(
		let("c", windows("$$u"), either(less(0, "$$c"), add("$$k.left", mul(sub("$$c", 1), "$$k.win")), 0.)),
		div("$$u", "$$k.rate")))
}

// charged is ledger i of $$k after the request that starts in w seconds. What accrues until then beyond the capacity is lost; but a
// promise that only waits for its own window takes what it leaves of those before along.
func (v variant) charged(i, w any) any {
	balance := element("$$k.L", i)
	placed := func(gain any) any {
		return sub(smallest(list(balance, sub("$$k.cap", gain))), "$$k.n")
	}
	if !v.windows {
		return placed(v.gain(w))
	}
	own := mul("$$k.fill", largest(list(0., windows(sub(smallest(list("$$k.n", "$$k.cap")), balance)))))
	return let("g", v.gain(w), either(all(isWindow(), atMost(reservations.LedgerPlan, i), atMost("$$g", own)),
		sub(balance, "$$k.n"), placed("$$g")))
}
