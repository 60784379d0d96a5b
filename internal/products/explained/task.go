// Package explained is a task with the reason why it does not run, as `headway explain` and the page show it.
package explained

import (
	"context"

	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/internal/state"
	"github.com/headway-go/headway/scheduler"
)

// Task is an explanation as it is printed.
type Task struct {
	ID      string `json:"id"`
	Queue   string `json:"queue"`
	Summary string `json:"summary"`
	scheduler.Explanation

	Bucket *state.Bucket `json:"bucket,omitempty"`
	// FlowName is the name that people know its flow by, e.g. the file of its batch; empty for the same.
	FlowName string `json:"flow_name,omitempty"`
	// SentAgain is the newest task of the same request of a batch, which `headway retry` has enqueued.
	SentAgain string `json:"sent_again_as,omitempty"`
	// Problem is why the bucket could not be shown.
	Problem string `json:"bucket_problem,omitempty"`
}

// New is a task without its bucket.
func New(e scheduler.Explanation) Task {
	return Task{ID: e.ID, Queue: e.Queue, Summary: e.Summary(), Explanation: e}
}

// Read explains a task with the bucket that it waits for. The error is that of Scheduler.Explain.
func Read(ctx context.Context, r state.Reader, queue, id string) (Task, error) {
	e, err := r.Scheduler.Explain(ctx, queue, id)
	if err != nil {
		return Task{}, err
	}
	t := New(e)
	if r.Names != nil && e.Waits != nil && e.Waits.Flow != "" {
		t.FlowName = r.Names(ctx, []string{e.Waits.Flow})[e.Waits.Flow]
	}
	switch {
	case e.BucketErr != nil:
		t.Problem = e.BucketErr.Error()
	case e.Bucket != nil:
		w, err := inside.Of(r.Scheduler).Waitlist(ctx, e.Waits.Bucket)
		if err != nil {
			return t, err
		}
		b := r.Bucket(*e.Bucket).With(w)
		r.NameFlows(ctx, b)
		t.Bucket = &b
	}
	return t, nil
}
