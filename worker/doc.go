// Package worker runs tasks, and keeps them within the limits that they charge.
//
//	w, err := worker.New(client, limiter, worker.Config{Concurrency: 20})
//	worker.Handle(w, func(ctx context.Context, job *worker.Job[Summary]) error {
//		used, err := summarize(ctx, job.Args.Document)
//		job.Use(reservations.Tokens{"tokens": used})
//		return err
//	})
//	err = w.Run(ctx)
//
// # The path of one delivery
//
// The steps of a delivery:
//
//	asynq ─▶ decode ─▶ charges ─▶ waitlists ─▶ buckets ─┬─▶ hold ─▶ handler ─▶ result to asynq
//	           │          │           │                 │             └──▶ settle: in the background
//	           ▼          ▼           ▼                 ├─▶ not now: to the waitlist, no retry used
//	        archived   archived   back to its place     └─▶ store down: to the waitlist, no retry used
//
// A [Worker] owns an asynq server and takes typed handlers ([Handle]). A program that has an asynq server already adds
// [Limits] to it: one middleware and one config helper ([Adopt]).
//
// # What is promised
//
//   - A limited task starts only if its bucket lets it; of several charges, all of them. If a bucket can't answer, the
//     task waits.
//   - If a provider refuses a call ([reservations.RetryAfter]), no task of the fleet starts in that bucket before the
//     time that it names; without a time the bucket pauses, as [reservations.RetryAfterError] says. The bucket is that
//     of the last charge. The refused task starts first afterwards and uses no retry, up to [Config].MaxRefusals times
//     in a row; waiting tasks keep their order.
//   - Waiting uses no retry, however often, with MaxRetry 0 as well.
//   - A task that fails is archived after exactly its retries. Each attempt is charged: the API may have been called.
//   - A task that can never run is archived at once with the reason, and nothing is charged: its payload does not
//     decode, its type or limit is unknown, its charge is too large.
//   - [Worker.Stop] waits for running handlers and for settlements, and names the unfinished ones.
//
// # What is not
//
// That a task runs once: a worker that dies is noticed by asynq, and its task is delivered again. Handlers have to
// be prepared for it. A worker that dies uses one of asynq's retries, of which there are 20 more than the
// task's own.
//
// # Tasks of others
//
// A task that Headway did not enqueue runs as well, with asynq's own count of retries. asynq archives a task on its
// last attempt whatever the error says. So when such a task has to wait there, a copy waits instead, and the original
// ends as done. The copy has the ID "id~1", or the next such ID that no task has. The copy has the same type,
// payload, headers and retention, but no Unique lock.
//
// # Timeouts
//
// asynq fails a task at its Timeout by itself. So handlers get a context that ends a little earlier (5 % of the time,
// at most a second). A handler that ignores it is left behind: asynq gets a failure, and the settlement follows when
// the handler really ends.
package worker
