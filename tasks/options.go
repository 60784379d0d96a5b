package tasks

import "time"

// NoRetry as Options.MaxRetry archives a task at its first failure.
const NoRetry = -1

// Options are the options of a task. A field that the call of Enqueue sets overrides the field of the task's type
// (Optioner). The zero value of each field is its default.
type Options struct {
	// Queue is the name of the queue: at most 200 bytes of UTF-8 without control characters. Defaults to
	// "default".
	Queue string
	// ID identifies the task. While asynq stores a task with this ID, a second one is refused with
	// asynq.ErrTaskIDConflict. Of several tasks each must have its own ID, from its type. Defaults to a random ID.
	ID string
	// MaxRetry is how often the task is retried after a failure. Waiting is not a failure. Defaults to
	// 25; NoRetry means no retry.
	MaxRetry int
	// Timeout bounds one attempt, from the call of the handler. Defaults to 30 minutes. Whole seconds, rounded up.
	Timeout time.Duration
	// Retention is how long a finished task stays readable. Defaults to zero. Whole seconds, rounded up.
	Retention time.Duration
	// Unique is a key of at most 500 bytes. While a task of this type, queue and key waits or runs, another one is
	// refused with a *scheduler.DuplicateError. A task that ended, also one in the archive, refuses none. Of several
	// tasks each must have its own key, from its type. Defaults to no key.
	//
	// Not promised: a task that asynq's own tools or `headway dead requeue` run again after its end may meet a newer
	// one with its key. So may a task that more than 20 workers died with.
	Unique string
	// At is the earliest start of the task, to the millisecond, by the clock of this machine. Where no dispatcher runs,
	// the task starts up to two seconds later; where the clock of the worker differs, by at most a quarter of a second
	// more. Zero, and a time in the past, mean now. Then it takes its place
	// behind the tasks that wait.
	At time.Time
	// StartBy is the latest start of the task, to the millisecond. A task that does not start by then ends as expired
	// (ErrExpired), and so does a retry: it goes to the archive and to the dead tasks, and its reservation is released.
	// A task whose waitlist is so long that it is expected to start later is not enqueued: a *scheduler.TooLateError.
	// StartBy must be in the future, and not before At. Defaults to no such time.
	StartBy time.Time
	// SkipExisting counts a task that exists already (asynq.ErrTaskIDConflict, *scheduler.DuplicateError) as success,
	// a nil info. So a whole batch can be sent again.
	SkipExisting bool
}
