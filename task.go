package headway

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/tasks"
)

// ErrRuns is matched by Delete for a task that runs.
var ErrRuns = errors.New("headway: the task runs")

// Enqueue sends one task, as scheduler.Scheduler.Enqueue does: it returns at once, and the task starts when its limits
// allow it. Fields that opts set override the options of the task's type.
func (c *Client) Enqueue(ctx context.Context, args tasks.Args, opts ...Options) (*asynq.TaskInfo, error) {
	return c.Scheduler().Enqueue(ctx, args, opts...)
}

// EnqueueMany is Enqueue for several tasks, in few round trips and in this order. The error joins a
// *scheduler.ItemError for each refused task.
func (c *Client) EnqueueMany(ctx context.Context, args []tasks.Args, opts ...Options) ([]*asynq.TaskInfo, error) {
	return c.Scheduler().EnqueueMany(ctx, args, opts...)
}

// Explain says in which state a task is, why it does not run, and when it is expected to start: Explanation.Summary is
// one sentence. With an empty queue it looks in all of them. The error matches asynq.ErrTaskNotFound where there is no
// such task.
func (c *Client) Explain(ctx context.Context, queue, id string) (scheduler.Explanation, error) {
	return c.Scheduler().Explain(ctx, queue, id)
}

// Delete deletes a task that waits, is scheduled, was archived, or is done and still stored. The reservation of a task
// that waits is given back. With an empty queue it looks in all of them. The error matches ErrRuns for a task that
// runs, and asynq.ErrTaskNotFound where there is no such task.
func (c *Client) Delete(ctx context.Context, queue, id string) error {
	if queue == "" {
		e, err := c.Explain(ctx, "", id)
		if err != nil {
			return err
		}
		queue = e.Queue
	}
	deleted, err := c.Scheduler().Delete(ctx, queue, id)
	if err != nil || deleted[0] != nil {
		return err
	}
	switch e, err := c.Scheduler().Explain(ctx, queue, id); {
	case err != nil:
		return err
	case e.State == asynq.TaskStateActive.String():
		return fmt.Errorf("%w: %s in queue %s, since %s", ErrRuns, id, queue, e.Since.UTC().Format(time.RFC3339))
	}
	if err := c.inspector.DeleteTask(queue, id); err != nil {
		return fmt.Errorf("headway: delete task %s of queue %s: %w", id, queue, err)
	}
	return nil
}

// archivedPart is how many archived tasks are read at once.
const archivedPart = 100

// Archived returns the tasks of a queue that asynq has archived: they failed for good. The newest come first. It ends
// with the first error. asynq keeps 10 000 of them for at most 90 days; package deadtasks keeps all.
func (c *Client) Archived(ctx context.Context, queue string) iter.Seq2[*asynq.TaskInfo, error] {
	return func(yield func(*asynq.TaskInfo, error) bool) {
		for page := 1; ; page++ {
			if ctx.Err() != nil {
				yield(nil, context.Cause(ctx))
				return
			}
			some, err := c.inspector.ListArchivedTasks(queue, asynq.PageSize(archivedPart), asynq.Page(page))
			if err != nil {
				yield(nil, fmt.Errorf("headway: list the archived tasks of queue %q: %w", queue, err))
				return
			}
			for _, t := range some {
				if !yield(t, nil) {
					return
				}
			}
			if len(some) < archivedPart {
				return
			}
		}
	}
}
