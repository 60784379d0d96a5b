package chat

import (
	"context"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/tasks/llm"
	"github.com/headway-go/headway/worker"
)

// absentError sends a task back to the queue, because this worker lacks a setting for it. It is no failure of the
// task, so it uses no retry: a key that one machine lacks must not archive what others could do.
type absentError struct{ setting string }

func (e *absentError) Error() string {
	return "waiting for another worker: the one that took the task has no " + e.setting
}

// Is makes it no failure for the scheduler.
func (*absentError) Is(target error) bool { return target == scheduler.ErrDeferred }

// turnAway sends every call of the provider back, with all that was taken for it.
func turnAway(w *worker.Worker) {
	worker.Handle(w, back[llm.Chat])
	worker.Handle(w, back[llm.Call])
}

func back[T tasks.Args](_ context.Context, job *worker.Job[T]) error {
	return giveBack(job, "OPENAI_API_KEY")
}

// giveBack sends one task back.
func giveBack[T tasks.Args](job *worker.Job[T], setting string) error {
	job.Use(reservations.Unused(job.Charges...))
	return &absentError{setting: setting}
}
