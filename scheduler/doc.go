// Package scheduler decides when a task runs: the first time, later, and again. It enqueues tasks, lets tasks wait that
// a limit refuses, and promotes them when their tokens are there. Waiting uses no handler and no retry.
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
// Every started [Scheduler] runs a dispatcher. The one that holds a lease in Redis is on duty for the fleet. At each
// look it takes the last answer of each bucket that is due, filled up to now. It plans the promoted tasks that have
// not begun, then the head of the waitlist. It promotes the tasks that can start before its next look. A promoted
// task goes to the head of its queue, behind tasks that were promoted before, urgent tasks first of all. Promotion
// promises nothing: the task asks its bucket, and starts, holds for at most [reservations.Hold], or goes back to its
// place. A promoted task that does not begin within five seconds waits again.
//
// Workers send the newest answer of each bucket at most every 10 ms ([Scheduler.Changed], [Scheduler.Begun]). So a
// settlement, a block, or a changed limit takes effect at the next look, and no task is delivered for it.
//
// If no dispatcher runs, or Redis loses the waitlists, asynq delivers each task by itself: the net. It does so two
// minutes and a tenth of the wait after the time of the task ([RetryDelay]). A waiting task that is delivered without
// having been promoted goes back to its place, and its bucket is not asked ([Scheduler.Return]).
//
// # Several limits
//
// Buckets are asked in the order of the charges. If other tasks wait for one of them, a new task waits there at once.
// The bucket that refuses has the task in its waitlist; what other buckets granted is given back.
//
// # Direct callers
//
// A goroutine that calls limiter.Wait after limiter.WaitIn(scheduler) has a place in the waitlist like a task. It is
// promoted by a message to its process ([Scheduler.Enter]).
//
// # Sorting
//
// A long backlog of tasks that were enqueued without a reservation is not delivered task by task only to be sent back.
// [Scheduler.Sort] takes many tasks at once from the head of asynq's pending list. It reserves for them, and puts
// them into the waitlists, as Reserved does at enqueue.
//
// # Times and recurring tasks
//
// A task with At or StartBy has timers beside the waitlists. When a timer is due, the dispatcher has asynq deliver the
// task, and the worker holds it until its time, or ends it as expired. A lost timer costs at most two seconds.
//
// Every started Scheduler enqueues the ticks of [Config].Recurring. The script that enqueues a task also compares and
// stores the tick, so each tick is enqueued once without a leader. asynq's PeriodicTaskManager can't do that: it goes
// by the clock of each machine, and enqueues a tick again that a killed leader did. See docs/decisions.
//
// # Clocks
//
// Buckets live on the clock of their store, waitlists on that of Redis. Each answer carries the store's time, and the
// waitlist stores the difference. No clock of a worker decides when a task starts.
//
// # Explaining
//
// [Scheduler.Explain] says why a task does not run and when it is expected to, [Scheduler.Waitlists] how many tasks
// wait where. Both only read.
//
// # What a task costs in Redis
//
// Tasks of one process that arrive within half a millisecond share a script; so do tasks that join while another one
// joins. The dispatcher needs two scripts a look and one for each queue that it promotes to. At 100 tasks a
// second, with two workers: a task that arrives, waits and is promoted takes 3.3 round trips beside asynq's own. A
// reserved task takes 1.6. All keys begin with "headway:{wait}:" and so live on one node of a cluster.
//
// # Promised
//
// A waiting task is never lost and uses up no retry. It keeps its place through early deliveries, outages, and changed
// limits. If the dispatcher dies, another one goes on within two seconds. Nothing here can make a limit be exceeded:
// the bucket decides about each start.
//
// # Not promised
//
// That a task is delivered once: asynq delivers at least once. That tasks start in the exact order of the waitlist:
// promoted tasks are delivered side by side, and a task that holds may be passed. That tasks of killed workers keep
// their time: asynq delivers them when their leases end. That a task that an operator archives stays in the
// waitlist: it leaves it when it is promoted.
package scheduler
