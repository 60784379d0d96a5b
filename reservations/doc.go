// Package reservations keeps shared rate limits exactly, for fleets of workers that reserve ahead and settle
// afterwards.
//
//	limiter, err := reservations.New(store, []reservations.Limit{{Name: "openai", Meters: []reservations.Meter{
//		reservations.PerMinute("requests", 500), reservations.PerMinute("tokens", 200_000),
//	}}}, reservations.Config{})
//	charge := reservations.Charge{Limit: "openai", Tokens: reservations.Tokens{"requests": 1, "tokens": 1500}}
//	err = limiter.Do(ctx, []reservations.Charge{charge}, func(ctx context.Context) (reservations.Tokens, error) {
//		used, err := call(ctx)
//		return reservations.Tokens{"tokens": used}, err
//	})
//
// The store is one of package memstore, for one process, or of package mongostore or redisstore, for a fleet.
//
// # Model
//
// A [Limit] is a named rule of one or more meters, e.g. 500 requests and 200 000 tokens a minute. A bucket is its
// state for one key. A [Charge] is what one task takes. A bucket keeps two balances for each meter. Both fill at the
// meter's rate up to its capacity, and the second is never above the first:
//
//	started    less what started: it alone decides whether a task may start
//	reserved   less what started or is promised to waiting tasks: it says when a new task may start
//
// The reserved balance may be in deficit, down to -max_reserved. A meter fills evenly (a token bucket), or by its whole
// rate when a window ends ([KindWindow], e.g. [PerDay]). One limit may have both kinds.
//
// # The life of a call
//
//	new ──────ask───▶ started ──Grant.Settle──▶ settled
//	 │ no room         ▲   └────Grant.Cancel──▶ given back
//	 ▼                 │
//	reserved ──────────┤ promoted: its turn has come
//	waiting ───────────┘ the same without a promise
//
// A new call starts when the reserved balance has room. Otherwise the bucket promises its tokens and answers with
// RetryAt; beyond max_reserved or max_wait it promises nothing. The dispatcher of package scheduler promotes waiting
// tasks and callers in their order. They start when the started balance has room. The dispatcher plans by the same
// arithmetic as the bucket itself.
//
// A start that is short of tokens by at most 250 ms is granted, and the task waits in its worker. A charge above the
// capacity needs a full bucket and is then owed. Ordinary charges leave a meter's headroom, and urgent ones use it;
// these do not wait for promised tokens.
//
// When a provider refuses a call and names a time ([RetryAfter], [Grant.Block]), nothing starts before, at most for the
// limit's max_block. A token bucket is empty when the block ends. [Limiter.Sync] corrects the bucket by the balance
// that a provider reports.
//
// [Limiter.Allow] is for callers that can't wait, e.g. a web handler: it starts a call now or not at all.
// [Limiter.Reset] fills the bucket. The semantics are the same as in Convex's rate limiter, whose recorded decisions
// the tests replay; MaxReserved zero means no bound, and None that nothing is promised.
//
// # Direct calls
//
// [Limiter.Do] and [Limiter.Wait] do all of that for code that is no task: they wait until the charges of several
// limits have started together, and settle. After scheduler.Scheduler.TakeCallers, callers wait in line with the tasks
// of the fleet; otherwise each waits by itself. A limit may also come from the caller ([Charge].Given) or from the
// program's own database (Config.Resolve).
//
// # Calls in flight
//
// A meter of [InFlight] is refilled by nothing but the end of a call. A start takes a lease,
// [Grant.Keep] renews it every 5 seconds, and [Grant.Settle] ends it; Do and package worker do so by themselves. A task
// that is short of such a slot waits without a promise and never holds. RetryAt is when slots are back if no call ends
// and no lease is renewed.
//
//   - A settlement that is sent twice, or after the lease has ended, changes nothing.
//   - A process that was killed, or a start whose answer was lost, has its slots for at most 26 seconds more.
//   - If a lease can't be renewed, the context of the call ends 20 seconds after the last renewal was sent. This is 5
//     seconds before the bucket gives the slot away. A call that goes on beyond that may be one too many.
//   - A lower number counts at once: calls that run go on, and none starts until enough have ended.
//   - A store's clock that runs back makes leases last longer, by up to a minute. A clock that jumps forwards, or a
//     store that loses its data, ends leases too early; so does [Limiter.Reset]. The calls end at their next renewal.
//   - Each shard has an even part of the slots.
//
// # Guarantees
//
// The tokens that start in any window of length T are at most capacity + rate*T, whatever was promised, forgotten or
// delivered twice. For a meter with fixed windows they are at most capacity, and Rate more for each window that begins
// in T. A charge above the capacity counts as the capacity while it is owed. What is given back counts when it is given
// back. Of a meter of calls in flight no more run at once than its capacity, as far as calls end with their contexts.
//
// A provider that fills as the meter does and counts a call when it comes has room for every call. While tasks hold, a
// refund and the end of a block leave no more than this provider has.
//
// If a limit changes, or processes have different limits, the largest limit in force counts. Tokens that come back in
// Hold may start in addition. Shards together keep the limit.
//
// Nothing starts during a block, whatever is given back meanwhile. A settlement with an ID counts once. A lost
// reservation delays new tasks once, and never affects the limit. When the store can't answer, nothing starts.
//
// # Not promised
//
// The bucket does not keep the order of tasks: the waitlist does. RetryAt is the earliest time if nothing else asks,
// not a promise. Tokens of a worker that dies between the grant and the start are lost until they are refilled. So are
// the tokens of a start that is cancelled while it holds, where the meter is nearly full. Usage above the estimate is
// known only when the call ends, and is then owed. The provider may count otherwise than the limit says.
//
// While processes have different windows for one meter, only what both have in common comes back.
//
// # Failures and time
//
// A call that fails with [ErrUnavailable] must be treated as refused; its charge may have been taken, and refill heals
// that. Settlements are repeated until they are applied or ctx ends.
//
// The store's clock is the only one that decides. The arithmetic is pure and has it as an argument. A clock
// that runs back by up to a minute changes nothing. A clock that runs back by more is followed, and nothing is filled
// for that step.
package reservations
