// Package llm has a ready-made task type, [Call], for chat completions and every other endpoint that a batch file may
// name. Calls go to every provider that speaks OpenAI's protocol.
//
// # A call as a task
//
// [Call] is the payload: the request body, and what the task takes from its limits. The body is exactly as a line of an
// OpenAI batch file holds it, so that all parameters arrive at the provider. [NewCall] computes the charge from the
// body. [Endpoint.Charge] does so for narrower limits beside it, e.g. a tenant's share. A payload never holds an API
// key; the [Client] of the worker does.
//
// # Running it
//
// [Client.Run] fits into a worker's handler:
//
//	worker.Handle(w, func(ctx context.Context, job *worker.Job[llm.Call]) error {
//		answer, err := client.Run(ctx, job.Args, job.Use, job.Observe)
//		...
//	})
//
// It reports what was really used, so that the estimate is settled: the real usage of an answer, no tokens for a
// request that the provider rejected, nothing at all for one that never reached it. If it is unknown whether the
// provider counted (a timeout, a broken connection, a 5xx), nothing is reported and the estimate stands.
//
// # The provider's own count
//
// Most providers say with each answer what is left of their limits. [Client.Run] passes that to job.Observe, so that
// the bucket goes down to it ([SyncDown]). That matters if another program spends the same limit, or if the provider
// counts more than was estimated. A handler without job.Observe goes without. [ReadLimits] does so for a client of your
// own.
//
// # Errors
//
// Every failed call is an *[Error]. A failure is permanent, as in package tasks, where a retry can't succeed: a body
// that is no request of the endpoint, and a 4xx other than 401, 402, 408, 409, 425, 429 and 498. A 429 is permanent for
// a request above the provider's whole limit ("Request too large"). All others may be retried: a 401 is the fault of
// the worker's key, and a 402 that of its account, not of the task.
//
// A good status is not enough for an answer: it must have what the endpoint answers with, and no error in it. An error
// there counts as what its words say. A finish reason is an error only if its name says so; content filters, refusals,
// tool calls and empty content are answers. [Error].Unusable is set if something else came, such as a page or a stream.
//
// A refusal ([Error.Refused]) is a [reservations.RetryAfterError]: the bucket is blocked for the time that it names, at
// most for the limit's max_block. Without a time, with a 402, and with a 401, the bucket pauses. A 401, 402, 429, 498,
// 503 and 529 is a refusal, and so is an error whose words say so. A 403, 404, 408, 409, 423, 424, 425, 502 and 504 is
// one only with a time. The time is in Retry-After or its kin, or in the body (RetryInfo of Google, retry_after).
// Without these it is in the message ("try again in 2s"), or in the resets of X-Ratelimit-* and the like.
//
// The client itself never retries, because each attempt has to pass the limit. The texts of errors never hold the API
// key.
//
// # Not promised
//
// Streams: the answer is read whole. That an attempt is made only once: a worker that dies after the call makes it
// again.
package llm
