// Package tasks defines tasks: type, payload, charges and retries. It does no I/O. Package scheduler sends tasks and
// package worker runs them.
//
// # A task type
//
// A payload is a plain struct with a TaskType method. Two more methods are optional:
//
//	type Summary struct{ DocumentID string `json:"document_id"` }
//
//	func (Summary) TaskType() string                 { return "summary" }         // Args, required
//	func (Summary) Charges() []reservations.Charge   { ... }                      // Charger: the charges of one task
//	func (Summary) TaskOptions() tasks.Options       { ... }                      // Optioner: defaults of the type
//
// A task may have several charges, narrowest first, at most 8. It starts when all of their limits grant it.
//
// # How a task travels
//
// The payload of the asynq task is the JSON of the struct and nothing else. So every asynq tool can show it, and other
// programs can enqueue it. What Headway adds travels in headers: headway-version and headway-charges. A task
// without the version header is foreign: it runs, with the charges its arguments compute and with asynq's own count of
// retries.
//
// A worker refuses an unknown version, type or payload. It ignores unknown JSON fields, because old workers see new
// fields during a rolling deploy. A missing field has its zero value.
//
// # Retries
//
// asynq archives a task that comes back on its last attempt, even if the task only waits. So Headway has its own
// count, and asynq's count is higher by 20. Waiting uses up neither.
//
// # Errors
//
// [Permanent] marks a failure that a retry cannot fix, [reservations.RetryAfter] a call that the provider refused. A
// task that a worker can't decode fails for good, too.
//
// # Secrets
//
// Payloads are stored in Redis unchanged, and tools show them. Put no secrets into them.
package tasks
