// Package scheduler decides when a task runs: the first time, later, and again. It enqueues tasks. Tasks that a
// limit refuses wait, and are promoted when their tokens are there. Waiting uses no handler and no retry.
//
//	info, err := s.Enqueue(ctx, Translation{Document: "a letter"}, tasks.Options{StartBy: tonight})
//	why, err := s.Explain(ctx, info.Queue, info.ID)
//
// A waiting task is in asynq's own sets. Every asynq tool shows it, with the reason in its error text. In Redis beside
// it, the waitlist of its bucket holds its place. Flows and priorities of a limit share it in tokens, by weight.
//
// Every started [Scheduler] can promote; one is on duty for the fleet. Package worker starts one. A producer that only
// enqueues needs none.
//
// # Times and recurring tasks
//
// A task with At or StartBy has timers beside the waitlists. When a timer is due, the dispatcher has asynq deliver the
// task, and the worker holds it until its time, or ends it as expired. A lost timer costs at most two seconds.
//
// Every started [Scheduler] enqueues the ticks of [Config].Recurring. The script that enqueues a task also compares and
// stores the tick, so each tick is enqueued once without a leader. asynq's PeriodicTaskManager can't do that: it goes
// by the clock of each machine, and enqueues a tick again that a killed leader did. See docs/decisions.
//
// # Clocks
//
// Buckets live on the clock of their store, waitlists on that of Redis. No clock of a worker decides when a task
// starts.
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
