// Package dispatcher lets tasks wait that a limit refuses, and promotes them when their tokens are there. Package
// scheduler is its face for users, and package worker asks it about each delivery. Waiting uses no handler and no
// retry.
//
// # The path of a task
//
//	Enqueue ──▶ waitlist ◀────────────────┐
//	               │                      │ not yet: Wait, *DeferredError
//	               │ dispatcher: promote  │
//	               ▼                      │
//	        asynq: pending ──▶ worker: Arrive, ask ──▶ Begun: starts
//	               ▲
//	               ├── a plain asynq client
//	               └── two minutes late, the net: asynq's scheduled and retry sets
//
// A waiting task is in asynq's own sets, visible in every asynq tool with the reason in its error text. In Redis beside
// it, the waitlist of its bucket holds its place. The place of a task is its tag (start-time fair queueing), and the
// task keeps the tag until it starts. Flows and priorities of a limit share it in tokens, by weight.
//
// # Promoting
//
// In each process a started [Dispatcher] runs. The one that holds a lease in Redis is on duty for the fleet. At each
// look it takes the last answer of each bucket that is due, filled up to now. It plans the promoted tasks that have
// not begun, then the head of the waitlist. It promotes the tasks that can start before its next look. A promoted
// task goes to the head of its queue, behind tasks that were promoted before, urgent tasks first of all. Promotion
// promises nothing: the task asks its bucket, and starts, holds for at most [bucket.Hold], or goes back to its
// place. A promoted task that does not begin within five seconds waits again.
//
// A task that waits alone needs no dispatcher: its bucket has said when it may start. It is promoted when it joins, or
// a look is planned for then.
//
// Workers send the newest answer of each bucket at most every 10 ms ([Dispatcher.Changed], [Dispatcher.Begun]). So a
// settlement, a block, or a changed limit takes effect at the next look, and no task is delivered for it.
//
// If no dispatcher runs, or Redis loses the waitlists, asynq delivers each task by itself: the net. It does so two
// minutes and a tenth of the wait after the time of the task ([RetryDelay]). A waiting task that is delivered without
// having been promoted goes back to its place, and its bucket is not asked ([Stop.Kept]).
//
// # Several limits
//
// Buckets are asked in the order of the charges. If other tasks wait for one of them, a new task waits there.
// The bucket that refuses has the task in its waitlist; what other buckets granted is given back.
//
// # Direct callers
//
// A goroutine that calls limiter.Wait after scheduler.TakeCallers has a place in the waitlist like a task. It is
// promoted by a message to its process ([Dispatcher.Enter]).
//
// # Clocks
//
// Buckets live on the clock of their store, waitlists on that of Redis. Each answer carries the store's time, and the
// waitlist stores the difference. No clock of a worker decides when a task starts.
//
// # What a task costs in Redis
//
// Tasks of one process that arrive within half a millisecond share a script; so do tasks that join while another one
// joins, and what is to be reported then. The dispatcher needs two scripts a look and one for each queue that it
// promotes to. All keys begin with "headway:{wait}:" and so live on one node of a cluster.
package dispatcher
