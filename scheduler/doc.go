// Package scheduler decides when a task runs: the first time, later, and again. It enqueues tasks, sends those that a limit
// refuses back to the queue without using up a retry, and wakes them to the millisecond when their time has come.
//
// # The way of a task
//
//	Enqueue ───────────────▶ asynq: pending ──▶ worker: Recall, begin ──▶ starts
//	Enqueue with Reserved                         ▲        │ not now
//	   │ a time from the bucket                   │        ▼
//	   ├──▶ asynq: scheduled ──┐                  │     Defer: place and due in Redis
//	                           ├── waker: due ────┘        │ *DeferredError
//	Sort, many pending         └── asynq: retry ◀──────────┘
//
// While it waits a task lies in asynq's own sets, visible in every asynq tool with the reason in its error text, and occupies no
// worker. Beside it, in Redis too, stand its place (what it comes back with) and its entry in a line: one sorted set for each bucket
// and generation, by due. The line has a clock: a settlement that gives tokens back, or an upstream that refuses, moves one number
// there ([Scheduler.Moved]) and everybody in the line with it; nobody is delivered for it and the order stays.
//
// # Waking
//
// Every started [Scheduler] can wake the tasks of all. One at a time is on duty and looks when the first task of any line is due, every
// five seconds at least. It is told through Redis (publish) when a task came to stand in front; its process looks then as well. The others look when the one on duty should have. A task is taken by one of them, under a lease of two seconds: when that one dies, another takes it over. Taken a little
// early (Config.WakeEarly) along with those that are due a little later, and moved to the head of its queue by a script of ours that does so for many at once (asynq.Inspector
// sees to what the script does not know), it reaches its handler a little before it is due, and the bucket has it wait there for the rest.
//
// Should no waker run, or Redis lose the line, asynq's own forwarder delivers the task, ten seconds and a tenth of the wait
// after its time ([RetryDelay]): the safety net.
//
// What is woken comes behind those that were woken before and are not delivered yet, urgent tasks before all.
//
// # Sorting
//
// A long backlog of tasks that arrived unreserved is not delivered task by task only to be sent back. [Scheduler.Sort] takes many at once from what asynq is about to deliver, has
// the buckets give them their times, and lets them stand in line, as Reserved does when they are enqueued. Asynq has them in its scheduled set all the time.
//
// # Clocks
//
// Dues are kept on the bucket's clock. How far Redis's clock is behind it is learned from every answer of the bucket that passes
// through; no worker's clock is compared with anything. From an answer on, the clock of a line runs at the speed that the answer
// told (reservations.Outcome.Speed), until a newer one comes.
//
// # Explaining
//
// [Scheduler.Explain] tells why a task does not run and until when, [Scheduler.Lines] who waits where. Both only read.
//
// # What a task costs in Redis
//
// Deferrals of one process that come while another is being noted share one script; so do recalls, and those within half a millisecond. Waking takes a share of two scripts that take
// up to 128 tasks at once. A settlement takes a share of one: answers are gathered for 30 ms, the newest of each bucket counts. A reserved task
// costs at enqueue what an asynq task does (one script), and a share of one script for up to 128 tasks; one that
// is sorted a share of five. In
// a run with two workers and 100 tasks a second, 1.2 deliveries a task, that were 3.9 round trips a task. All keys begin with
// "headway:{line}:" and so live on one node of a cluster.
//
// # Promised
//
// A waiting task is never lost and uses up no retry. Of all wakers that live one wakes it, once. Wakers never bring a task before its time by more than
// WakeEarly and as much again, at most 50 ms more, as far as the bucket's clock runs evenly.
//
// # Not promised
//
// That a task is delivered once: asynq delivers at least once, the safety net may, and an operator can. The bucket sorts that
// out; the place of a task that lost it is all that is lost. That a waiting task stays where an operator puts it: one that was
// archived by hand is woken at its time all the same; delete it instead.
package scheduler
