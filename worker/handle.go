package worker

import (
	"context"
	"fmt"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/line/envelope"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
)

// Job is one attempt of a task, as its handler gets it.
type Job[T tasks.Args] struct {
	// Args is the payload.
	Args T
	// ID is the task's. It stays the same through waiting and retries.
	ID string
	// Queue is the queue that the task came from.
	Queue string
	// Attempt is 1 for the first attempt. Having had to wait does not count; a worker that died does.
	Attempt int
	// MaxRetry is how many more attempts the task gets after its first one failed. A failure of an attempt above it
	// is final.
	MaxRetry int
	// Charges are what was taken for this attempt, in the order in which the task names them. None for an unlimited
	// task.
	Charges []reservations.Charge
	// Task is what asynq delivered, e.g. for its ResultWriter.
	Task *asynq.Task

	usage *usage
	lower func(reservations.Tokens) []reservations.Charge
}

// Use reports what the task really used. A meter's name means that meter in every limit of the task that has it. The
// charges are settled by it when the handler ends, however it ends; without a call the estimate stays. A meter that
// is not named was used as estimated. A later call replaces an earlier one for the same meter. Safe for concurrent
// use; nothing happens for an unlimited task, and after the handler has ended.
func (j *Job[T]) Use(used reservations.Tokens) {
	if j.usage != nil {
		j.usage.use(used)
	}
}

// Used is Use for one meter.
func (j *Job[T]) Used(meter string, tokens float64) { j.Use(reservations.Tokens{meter: tokens}) }

// registration is what a worker knows of one task type.
type registration struct {
	prepare func(*delivery) (prepared, error)
	charges func(*asynq.Task) ([]reservations.Charge, error)
}

// Handle lets the worker run tasks of type T. It panics when the type has a handler already, has no name, or the
// worker has been started. It also panics if T seems to be a Charger or an Optioner and is none, e.g. because its
// pointer alone has the method: tasks of other programs would be unlimited.
//
// What the handler returns decides: nil ends the task; an error is retried with growing pauses until MaxRetry is used
// up, and then the task is archived; an error marked by tasks.Permanent archives it at once; reservations.RetryAfter
// blocks the bucket of the last charge and sends the task back, with no retry used (see Config.MaxRefusals). A panic is
// an error. Goroutines are used again: a handler that locks its thread or labels its goroutine has to undo that. The
// context ends a little before the task's timeout, and when the worker has been stopping for ShutdownTimeout.
func Handle[T tasks.Args](w *Worker, handler func(ctx context.Context, job *Job[T]) error) {
	name, err := envelope.TypeOf[T]()
	if err != nil {
		panic(fmt.Sprintf("worker: Handle: %v", err))
	}
	if name == "" {
		panic(fmt.Sprintf("worker: Handle: %T has no task type", *new(T)))
	}
	if handler == nil {
		panic(fmt.Sprintf("worker: Handle: no handler for %q", name))
	}
	w.register(name, registration{
		charges: envelope.ChargesAs[T],
		prepare: func(d *delivery) (prepared, error) {
			args, err := envelope.Decode[T](d.task)
			if err != nil {
				return nil, err
			}
			return func(ctx context.Context) error {
				return handler(ctx, &Job[T]{
					Args: args, ID: d.id, Queue: d.queue, Attempt: d.retried + 1, MaxRetry: d.maxRetry,
					Charges: d.taken(), Task: d.task, usage: &d.usage, lower: d.lower,
				})
			}, nil
		},
	})
}
