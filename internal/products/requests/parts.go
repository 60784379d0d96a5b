package requests

import "time"

const (
	// Retries is how often a request of a batch is retried, where nothing else is said.
	Retries = 25
	// Kept is how long Redis keeps the finished task of a request, without its answer: long enough that one which ends
	// while the batch is enqueued again is not taken for one that was never sent.
	Kept = time.Hour
)

// Parts are the errors that Scheduler.EnqueueMany has joined: a *scheduler.ItemError for each request that can't be
// enqueued, and what else has failed.
func Parts(err error) []error {
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		return many.Unwrap()
	}
	if err == nil {
		return nil
	}
	return []error{err}
}
