// Package chat runs chat completions on a worker: what the commands and the demo share.
package chat

import (
	"context"
	"fmt"

	"github.com/headway-go/headway/tasks/llm"
	"github.com/headway-go/headway/worker"
)

// Handle lets the worker run chat completions through client. What a call really used settles its charge; the body of the
// answer becomes the task's result, which asynq keeps as long as the task's retention says.
func Handle(w *worker.Worker, client *llm.Client) {
	worker.Handle(w, func(ctx context.Context, job *worker.Job[llm.Chat]) error {
		answer, err := client.Run(ctx, job.Args, job.Use)
		if err != nil {
			return err
		}
		if _, err := job.Task.ResultWriter().Write(answer.Body); err != nil {
			return fmt.Errorf("keep the answer of task %s: %w", job.ID, err)
		}
		return nil
	})
}
