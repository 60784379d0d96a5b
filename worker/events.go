package worker

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/headway-go/headway/reservations"
)

// Events are called as tasks go by: for live views and metrics. Nil funcs are not called. They run on the task's
// path, from many goroutines at once: they must not block. A panic in one is logged, and changes nothing for the
// task.
type Events struct {
	// OnStart is called just before a handler runs.
	OnStart func(Start)
	// OnDefer is called when a task was sent back to wait, for its time or for the store.
	OnDefer func(Deferral)
	// OnSort is called when tasks of a backlog joined their waitlists without having been delivered.
	OnSort func(Sorted)
	// OnFinish is called when asynq gets the result of a task that started.
	OnFinish func(Finish)
	// OnRefuse is called when a task can never start and is archived without having been charged: with an error that
	// matches tasks.ErrExpired if it did not start in time.
	OnRefuse func(Refusal)
	// OnBlock is called when a provider refused a call and named a time: after the bucket was blocked, or that was
	// given up.
	OnBlock func(Block)
	// OnSettle is called after a settlement was applied, or given up. A charge of a task that did not start after all
	// is settled as well.
	OnSettle func(Settlement)
	// OnSync is called after a bucket was corrected by what a handler saw, or that failed. An observation without
	// news is not sent.
	OnSync func(Sync)
}

// TaskRef identifies the task and the delivery of an event.
type TaskRef struct {
	ID, Queue, Type string
	// Attempt is 1 for the first attempt. Deliveries that had to wait do not count.
	Attempt int
	// MaxRetry is how many more attempts a task gets after its first one failed.
	MaxRetry int
}

// Start is a task whose handler is about to run.
type Start struct {
	Task TaskRef
	// Charges are what was taken, in the order in which the task names them. None for an unlimited task.
	Charges []reservations.Charge
	// Outcome is the answer of the last charge's bucket. Zero for an unlimited task.
	Outcome reservations.Outcome
	// Lateness is the time from the moment at which all buckets let the task run, after the hold, until now. Zero for
	// an unlimited task.
	Lateness time.Duration
	// Waited says that the task waited in a waitlist and was promoted.
	Waited bool
}

// Deferral is a task that has to wait.
type Deferral struct {
	Task TaskRef
	// Charge is the one that it waits for. Zero for an unlimited task.
	Charge reservations.Charge
	// Outcome is the bucket's answer. Zero when the store could not be asked.
	Outcome reservations.Outcome
	// Until is when the task is expected back, on this machine's clock.
	Until time.Time
	// Err says why, in a sentence; it matches scheduler.ErrDeferred, and reservations.ErrUnavailable when the store
	// is down.
	Err error
}

// Sorted are tasks that joined their waitlists without a delivery. There is no Deferral of them.
type Sorted struct {
	Queue string
	Tasks int
}

// Result is how a task that started ended.
type Result string

const (
	// ResultSucceeded ends the task.
	ResultSucceeded Result = "succeeded"
	// ResultFailed means that the task is retried later.
	ResultFailed Result = "failed"
	// ResultArchived means that the task failed and is not retried.
	ResultArchived Result = "archived"
	// ResultRefused means that the provider refused the call and named a time: the task waits for that, with no retry
	// used.
	ResultRefused Result = "refused"
	// ResultDropped means that the handler returned asynq.RevokeTask: the task is gone.
	ResultDropped Result = "dropped"
	// ResultAborted means that asynq took the task back meanwhile, or that the lease of a call in flight was lost: the
	// task is delivered again, here or elsewhere, with no retry used. It is also the result of a call that `headway
	// worker` leaves to another worker because it lacks a key.
	ResultAborted Result = "aborted"
)

// Finish is the end of a task that started. A handler that ignores its context may still be running.
type Finish struct {
	Task    TaskRef
	Charges []reservations.Charge
	Result  Result
	// Used is what the handler has reported so far, by meter: a meter that is not there was used as estimated.
	Used reservations.Tokens
	// Foreign says that there was no Start: Limits let a task without a charge pass, and its provider refused it.
	Foreign bool
	// Elapsed is the time since the start.
	Elapsed time.Duration
	// Err is the result that asynq got. Nil if the task succeeded; the handler's error if the provider refused the
	// call.
	Err error
	// Payload is that of the task. It must not be changed.
	Payload []byte
}

// Refusal is a task that can never start.
type Refusal struct {
	Task TaskRef
	Err  error
	// Payload is that of the task. It must not be changed.
	Payload []byte
}

// Block is a bucket in which nothing starts for a time, because a provider refused a call.
type Block struct {
	// Task is the task whose call was refused.
	Task TaskRef
	// Charge is the last of the task's.
	Charge reservations.Charge
	// For is how long, at most the limit's max_block.
	For time.Duration
	// Reason is what the handler returned.
	Reason error
	// Outcome is the bucket's answer: RetryAt is when the block in force ends. Zero with an error.
	Outcome reservations.Outcome
	// Err is why the bucket could not be blocked. While the store is down, the block is retried for as long as a
	// settlement.
	Err error
}

// Settlement is the correction of one charge by what was really used. A task with several has one for each.
type Settlement struct {
	Task   TaskRef
	Charge reservations.Charge
	// Used is what the handler reported of the limit's meters.
	Used reservations.Tokens
	// Outcome is the bucket's answer. Zero when nothing had to be corrected, or with an error.
	Outcome reservations.Outcome
	// Err is why the settlement was given up: the charge stays as it was estimated.
	Err error
}

// Sync is the correction of one bucket by what a provider said is left.
type Sync struct {
	Task   TaskRef
	Charge reservations.Charge
	// Seen is the observation that was sent, of the meters of the charge.
	Seen reservations.Observation
	// Outcome is the bucket's answer. Zero with an error.
	Outcome reservations.Outcome
	// Err is why the bucket was not corrected. It is not tried again: the next answer says more.
	Err error
}

// With returns Events that call e and then others, each also if the one before it panics.
func (e Events) With(others Events) Events {
	return Events{
		OnStart:  both(e.OnStart, others.OnStart),
		OnDefer:  both(e.OnDefer, others.OnDefer),
		OnSort:   both(e.OnSort, others.OnSort),
		OnFinish: both(e.OnFinish, others.OnFinish),
		OnRefuse: both(e.OnRefuse, others.OnRefuse),
		OnBlock:  both(e.OnBlock, others.OnBlock),
		OnSettle: both(e.OnSettle, others.OnSettle),
		OnSync:   both(e.OnSync, others.OnSync),
	}
}

func both[E any](first, then func(E)) func(E) {
	switch {
	case first == nil:
		return then
	case then == nil:
		return first
	}
	return func(event E) {
		defer then(event)
		first(event)
	}
}

// hook calls one of the Events. A panic in it is logged and goes no further: it is not the task's.
func hook[E any](log *slog.Logger, call func(E), event E) {
	if call == nil {
		return
	}
	defer func() {
		if value := recover(); value != nil {
			log.Error("event hook panicked", slog.String("event", fmt.Sprintf("%T", event)),
				slog.Any("panic", value), slog.String("stack", string(debug.Stack())))
		}
	}()
	call(event)
}
