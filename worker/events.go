package worker

import (
	"time"

	"github.com/headway-go/headway/reservations"
)

// Kind is what an Event reports.
type Kind string

const (
	// KindStarted is reported just before a handler runs.
	KindStarted Kind = "started"

	// KindSucceeded is the end of a task that succeeded. This kind and the next five report the result that asynq gets
	// of a task that started. A handler that ignores its context may still be running.
	KindSucceeded Kind = "succeeded"
	// KindFailed means that the task is retried later.
	KindFailed Kind = "failed"
	// KindArchived means that the task failed and is not retried.
	KindArchived Kind = "archived"
	// KindRefused means that the provider refused the call: the task waits, with no retry used.
	KindRefused Kind = "refused"
	// KindDropped means that the handler returned asynq.RevokeTask: the task is gone.
	KindDropped Kind = "dropped"
	// KindAborted means that asynq took the task back meanwhile, or that the lease of a call in flight was lost: the
	// task is delivered again, here or elsewhere, with no retry used. It is also the result of a call that `headway
	// worker` leaves to another worker because it lacks a key.
	KindAborted Kind = "aborted"

	// KindDeferred is reported when a task was sent back to wait, for its time or for the store.
	KindDeferred Kind = "deferred"
	// KindRejected is reported when a task can never start and is archived without having been charged.
	KindRejected Kind = "rejected"
	// KindBlocked is reported when a provider refused a call: after the bucket was blocked, or that was given up.
	KindBlocked Kind = "blocked"
	// KindSettled is reported after a settlement was applied, or given up: once for each charge. A charge of a task that
	// did not start after all is settled as well.
	KindSettled Kind = "settled"
	// KindSynced is reported after a bucket was corrected by what a handler saw, or that failed. An observation without
	// news is not sent.
	KindSynced Kind = "synced"
)

// Event is a step of a task, for live views and metrics: see Config.Events. Kind says which fields are set.
type Event struct {
	Kind Kind
	// Task is the task and its delivery.
	Task TaskRef
	// Charges are what a task took that started, in the order in which the task names them. None for an unlimited task.
	Charges []reservations.Charge
	// Charge is the charge that is waited for, blocked, settled or synced. Zero where an unlimited task waits.
	Charge reservations.Charge
	// Outcome is the answer of the bucket of Charge, and at a start of the last of Charges. Zero with an error, and if
	// nothing had to be asked. Where a bucket is blocked, its RetryAt is when the block ends.
	Outcome reservations.Outcome
	// Err is the result that asynq gets, why a task waits, or why a bucket could not be blocked, settled or synced. Of a
	// task that waits it matches reservations.ErrUnavailable while the store is down. Of a rejected task it matches
	// tasks.ErrExpired if the task did not start in time.
	Err error
	// Lateness is the time from the moment at which all buckets let the task run, after the hold, until its start.
	Lateness time.Duration
	// Waited says that a task that starts was promoted from a waitlist.
	Waited bool
	// Elapsed is the time from the start to the end.
	Elapsed time.Duration
	// Used is what the handler has reported, by meter, at the end and when Charge is settled. A meter that is not there
	// was used as estimated.
	Used reservations.Tokens
	// NotStarted says of an end that there was no start: Limits let a task without a charge pass, and its provider
	// refused it.
	NotStarted bool
	// Payload is that of a task that ended or was rejected. It must not be changed.
	Payload []byte
	// Until is when a task that waits is expected back, on this machine's clock.
	Until time.Time
	// Blocked is how long the bucket is blocked, at most the limit's max_block. Refusal is what the handler returned.
	Blocked time.Duration
	Refusal error
	// Seen is the observation that was sent to the bucket, of the meters of Charge.
	Seen reservations.Observation
}

// Ended returns whether a task that started has ended: with the kinds from KindSucceeded to KindAborted.
func (e Event) Ended() bool {
	switch e.Kind { //nolint:exhaustive // the others are no ends
	case KindSucceeded, KindFailed, KindArchived, KindRefused, KindDropped, KindAborted:
		return true
	default:
		return false
	}
}

// TaskRef identifies the task and the delivery of an event.
type TaskRef struct {
	ID, Queue, Type string
	// Attempt is 1 for the first attempt. Deliveries that had to wait do not count.
	Attempt int
	// MaxRetry is how many more attempts a task gets after its first one failed.
	MaxRetry int
}
