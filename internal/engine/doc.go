// Package engine lets tasks wait that a limit refuses, and promotes them when their tokens are there. Package scheduler
// is its face for users, and package worker asks it about each delivery. Waiting uses no handler and no retry.
//
// # The path of a task
//
//	Enqueue ───────────────▶ asynq: pending ──▶ worker: Arrive, ask ──▶ Begun: starts
//	Enqueue with Reserved            ▲               │ not yet
//	   │                             │               ▼
//	   └──▶ waitlist ◀───────────────┼───────── Wait: waitlist, *DeferredError
//	         │  ▲                    │               │
//	         │  └─ Sort ◀── pending  │               ▼
//	         ▼                       │          asynq: retry or scheduled set
//	    dispatcher: promote ─────────┘               │
//	                                 ▲               │ two minutes late: the net
//	                                 └───────────────┘
//
// A waiting task is in asynq's own sets, visible in every asynq tool with the reason in its error text. In Redis beside
// it, the waitlist of its bucket holds its place. The place of a task is its tag (start-time fair queueing), and the
// task keeps the tag until it starts. Flows and priorities of a limit share it in tokens, by weight.
//
// # Promoting
//
// Every started [Engine] runs a dispatcher. The one that holds a lease in Redis is on duty for the fleet. At each
// look it takes the last answer of each bucket that is due, filled up to now. It plans the promoted tasks that have
// not begun, then the head of the waitlist. It promotes the tasks that can start before its next look. A promoted
// task goes to the head of its queue, behind tasks that were promoted before, urgent tasks first of all. Promotion
// promises nothing: the task asks its bucket, and starts, holds for at most [bucket.Hold], or goes back to its
// place. A promoted task that does not begin within five seconds waits again.
//
// Workers send the newest answer of each bucket at most every 10 ms ([Engine.Changed], [Engine.Begun]). So a
// settlement, a block, or a changed limit takes effect at the next look, and no task is delivered for it.
//
// If no dispatcher runs, or Redis loses the waitlists, asynq delivers each task by itself: the net. It does so two
// minutes and a tenth of the wait after the time of the task ([RetryDelay]). A waiting task that is delivered without
// having been promoted goes back to its place, and its bucket is not asked ([Stop.Kept]).
//
// # Several limits
//
// Buckets are asked in the order of the charges. If other tasks wait for one of them, a new task waits there at once.
// The bucket that refuses has the task in its waitlist; what other buckets granted is given back.
//
// # Direct callers
//
// A goroutine that calls limiter.Wait after limiter.WaitIn(scheduler) has a place in the waitlist like a task. It is
// promoted by a message to its process ([Engine.Enter]).
//
// # Sorting
//
// A long backlog of tasks that were enqueued without a reservation is not delivered task by task only to be sent back.
// [Engine.Sort] takes many tasks at once from the head of asynq's pending list. It reserves for them, and puts
// them into the waitlists, as Reserved does at enqueue.
//
// # Clocks
//
// Buckets live on the clock of their store, waitlists on that of Redis. Each answer carries the store's time, and the
// waitlist stores the difference. No clock of a worker decides when a task starts.
//
// # What a task costs in Redis
//
// Tasks of one process that arrive within half a millisecond share a script; so do tasks that join while another one
// joins. The dispatcher needs two scripts a look and one for each queue that it promotes to. At 100 tasks a
// second, with two workers: a task that arrives, waits and is promoted takes 3.3 round trips beside asynq's own. A
// reserved task takes 1.6. All keys begin with "headway:{wait}:" and so live on one node of a cluster.
package engine
