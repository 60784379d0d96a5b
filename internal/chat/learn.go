package chat

import (
	"slices"

	"github.com/headway-go/headway/estimates"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
	"github.com/headway-go/headway/tasks/llm"
	"github.com/headway-go/headway/worker"
)

// Learning is what a worker does with what it learns of its estimates. Nil learns nothing.
type Learning struct {
	Learner *estimates.Learner
	// Limits are those whose tasks are charged by what was learned. Of all others it is only told.
	Limits []string
}

// expect lowers what is charged for the job to what was learned.
func expect[T tasks.Args](l *Learning, job *worker.Job[T], call llm.Call) {
	if l != nil && slices.Contains(l.Limits, call.Limit) {
		job.Expect(call.Expect(l.Learner))
	}
}

// learnt learns from an answer.
func learnt[T tasks.Args](l *Learning, job *worker.Job[T], call llm.Call, answer llm.Answer, err error) (llm.Answer, error) {
	if l != nil && err == nil && call.Limit != "" {
		call.Learn(l.Learner, answer, taken(job))
	}
	return answer, err
}

// taken is what is charged to the last limit of a job, the provider's.
func taken[T tasks.Args](job *worker.Job[T]) reservations.Tokens {
	if n := len(job.Charges); n > 0 {
		return job.Charges[n-1].Tokens
	}
	return nil
}
