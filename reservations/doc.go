// Package reservations keeps shared token buckets exactly, for fleets of workers that reserve ahead and settle afterwards.
//
// # Model
//
// A [Limit] is a named rule of one or more meters, e.g. 500 requests and 200 000 tokens a minute. A bucket is its state for
// one key. A [Charge] is what one task takes. Each meter keeps five ledgers, all filled at the meter's rate up to its
// capacity, none above the one before it:
//
//	use    less what started                               may this start? the limit itself
//	late   less what came at its time and found no room    first late, first started
//	plan   less what was given a time                      when to come back; not below -max_reserved
//	again  less returning tickets that the plan refused    they stay before newer ones
//	line   less tickets: places behind max_reserved        newcomers queue here
//
// A meter fills evenly (a token bucket) or by its whole rate when a window ends ([KindWindow], e.g. [PerDay]); one limit may mix them.
//
// # The life of a reservation
//
//	new ──Begin──▶ started ──Settle──▶ settled
//	 │ no room        ▲
//	 ├──▶ reserved ───┤ back when due: starts, unless the fleet was down or a refund was late
//	 │       └──▶ late ┘ came at its time, no room: first late, first started
//	 └──▶ ticket ──▶ reserved, or again ──▶ reserved        (behind max_reserved)
//
// A task asks with the [State] it was last given and either starts, or is given its next [Place]: a state and the time to
// come back. That time is on the clock of the line: settlements and upstream refusals move the bucket's shift, and with it
// everybody who waits, without a delivery.
//
// Where the first who waits is due later than it has to be, because others were withdrawn ([Limiter.Release]) or lost, [Limiter.Advance] moves the whole line up.
//
// A start that is not used is given back by [Limiter.Yield], with the turn kept, or by [Limiter.Cancel].
//
// When a provider refuses a call and names a time, [Limiter.Block] lets nothing start in the bucket before, at most [MaxBlock].
// The shift moves back by as much: who waits keeps its order and is not delivered for it.
//
// Callers that can't wait, a web handler say, use [Limiter.Take]: it starts now or not at all, takes no place, and its refusal
// says when it would be accepted. [Limiter.Reserve] gives a time, [Limiter.Check] and [Limiter.CheckTake] answer and change nothing,
// [Limiter.Reset] fills the bucket. Their semantics are those of Convex's rate limiter, whose recorded decisions all stores replay
// ([github.com/headway-go/headway/reservations/storetest.Replay]); max_reserved zero means none here, and unlimited there.
//
// # Guarantees
//
// The tokens started in any window of length T are at most capacity + rate*T, whatever was promised, forgotten or delivered
// twice (capacity + rate*(T+Hold) where a refund lands while a task holds); of a meter with fixed windows, capacity, and Rate
// more for each window that begins in T. Waiting tasks keep their order. Losing a Place costs the task its place
// and never the limit. Nothing starts during a block, whatever is given back meanwhile. When the store can't answer, nothing
// starts.
//
// # Not promised
//
// Order among tasks that arrive within a round trip of each other. That a worker which dies between Begin and the start
// gives its tokens back: they are healed by refill. That the provider counts as the limit says.
//
// # Clock
//
// The store's clock is the only one that decides; the arithmetic ([Step]) is pure and takes it as an argument.
package reservations
