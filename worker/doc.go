// Package worker runs tasks, and keeps them within the limits that they charge.
//
// # The path of one delivery
//
//	asynq ──▶ decode ──▶ charges ──▶ recall ──▶ begin ──┬─▶ hold ──▶ handler ──▶ result to asynq
//	            │           │                           │              └──▶ settle, in the background
//	            ▼           ▼                           ├─▶ not now: back to the queue until its time, no retry used
//	         archived    archived                       └─▶ store down: back to the queue, no retry used
//
// A [Worker] owns an asynq server and takes typed handlers ([Handle]). A program that has an asynq server already adds
// [Limits] to it: one middleware and one config helper ([Adopt]).
//
// # What is promised
//
//   - A limited task starts only when its bucket said so, of several charges all of them. When a bucket can't answer, it waits.
//   - Where a provider refuses a call and names a time ([tasks.RetryAfter]), nothing starts in that bucket (that of the last charge) before, in the whole fleet. The
//     task comes back first and uses no retry, up to [Config].MaxRefusals times in a row; those who wait keep their order.
//   - Waiting uses no retry, however often, with MaxRetry 0 as well.
//   - A task that fails for real is archived after exactly its retries. Each attempt is charged: the API may have been called.
//   - What can never work (a payload that does not decode, an unknown type or limit, a charge that is too large) is archived
//     at once with the reason, and nothing is charged.
//   - [Worker.Stop] waits for running handlers and for settlements, and names what it had to leave.
//
// # What is not
//
// That a task runs once: a worker that dies is noticed by asynq, and its task is delivered again. Handlers have to bear it.
// A worker that dies uses one of asynq's retries; [tasks.Slack] of them are there beyond the task's own.
//
// # Tasks of others
//
// A task that Headway did not enqueue runs as well, with asynq's own count of retries. asynq archives a task on its last
// attempt whatever the error says; so when such a task has to wait there, a copy of it waits in its stead, with the ID
// "id~1" (or the next such ID that no task has), and the original ends as done. The copy has the same type, payload, headers and retention, but no Unique lock.
//
// # Timeouts
//
// asynq fails a task at its Timeout without asking anybody. So handlers get a context that ends a little earlier (5 % of
// the time, at most a second), and a handler that ignores it is left behind: asynq is told that the task failed, and the
// settlement follows when the handler really ends.
package worker
