// Package tasks says what a task is: its type, its payload, what it takes from which limit, and how it may be retried. It
// does no I/O; package scheduler sends tasks and package worker runs them.
//
// # A task type
//
// A payload is a plain struct with a TaskType method. Two more methods are optional:
//
//	type Summary struct{ DocumentID string `json:"document_id"` }
//
//	func (Summary) TaskType() string                 { return "summary" }         // Args, required
//	func (Summary) Charges() []reservations.Charge   { ... }                      // Charger: what one task takes
//	func (Summary) TaskOptions() tasks.Options       { ... }                      // Optioner: defaults of the type
//
// A task may have several charges, narrowest first ([MaxCharges]): it starts when all of their limits let it.
//
// # How a task travels
//
// [Encode] makes an asynq task of it. The payload is the JSON of the struct and nothing else, so that every asynq tool can
// show it and other programs can enqueue it. What Headway adds travels in headers: [HeaderVersion] and
// [HeaderCharges]. A task without the version header is foreign: it runs, with the charges its arguments compute ([ChargesAs])
// and with asynq's own count of retries.
//
// [Decode] refuses a version, a type or a payload that it does not know, and lets pass JSON fields that it does not know: during
// a rolling deploy, old workers see new fields. The reverse holds as well: a missing field is its zero value.
//
// # Retries
//
// asynq archives a task that comes back on its last attempt, even one that only has to wait. So Headway owns the count:
// asynq's own is higher by [Slack] ([MaxRetry]). Waiting uses up neither.
//
// # Errors
//
// [Permanent] marks a failure that no retry mends. All errors of Decode and Charges are permanent. An error of Encode is
// an *[EncodeError] and means that nothing was sent.
//
// # Not here
//
// Payloads are stored in Redis as they are and shown by tools: put no secrets in them.
package tasks
