package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/asynqdb"
	"github.com/headway-go/headway/internal/nearest"
	"github.com/headway-go/headway/internal/waitlist"
)

// Task names one task of asynq's.
type Task struct {
	Queue string
	ID    string
}

// String is the task's name: queue/id. A slash in the name of the queue is escaped.
func (t Task) String() string { return waitlist.Task(t).String() }

// Find returns the tasks with this ID, at most one for each queue, in the order of the queues. The error matches
// asynq.ErrTaskNotFound if there is none, or is that of Redis.
func (s *Scheduler) Find(ctx context.Context, id string) ([]Task, error) {
	queues, err := s.inspector.Queues()
	if err != nil {
		return nil, fmt.Errorf("list the queues: %w", err)
	}
	slices.Sort(queues)
	var found []Task
	for _, queue := range queues {
		if ctx.Err() != nil { // asynq's inspector takes no context
			return nil, fmt.Errorf("look for task %s: %w", id, ctx.Err())
		}
		_, err := s.inspector.GetTaskInfo(queue, id)
		switch {
		case err == nil:
			found = append(found, Task{Queue: queue, ID: id})
		case !asynqdb.Gone(err):
			return nil, fmt.Errorf("look for task %s in queue %s: %w", id, queue, err)
		}
	}
	if len(queues) == 0 {
		return nil, fmt.Errorf("%w: there is no %s, and no queue: this Redis is another one than that of the workers, "+
			"or nothing was enqueued yet", asynq.ErrTaskNotFound, id)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%w: there is no %s in the queues %s; asynq forgets a task once it is done, "+
			"unless it was enqueued to be kept", asynq.ErrTaskNotFound, id, nearest.Quoted(queues))
	}
	return found, nil
}

// info is what asynq stores of the task. The error matches asynq.ErrTaskNotFound if there is no such task.
func (s *Scheduler) info(ctx context.Context, t Task) (*asynq.TaskInfo, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("look for %s: %w", t, ctx.Err())
	}
	info, err := s.inspector.GetTaskInfo(t.Queue, t.ID)
	if errors.Is(err, asynq.ErrQueueNotFound) {
		err = fmt.Errorf("%w: there is no queue %q", asynq.ErrTaskNotFound, t.Queue)
		if queues, failed := s.inspector.Queues(); failed == nil && len(queues) > 0 {
			slices.Sort(queues)
			err = fmt.Errorf("%w; %s", err, nearest.There(t.Queue, queues))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("look for %s: %w", t, err)
	}
	return info, nil
}

// failures is how often the task failed. asynq counts only failures that led to a retry. If the last failure archived
// the task, both have the same time; if an operator did, the archive is later.
func failures(q asynqdb.QueueState, info *asynq.TaskInfo) int {
	if info.State == asynq.TaskStateArchived && info.LastErr != "" && !q.Note.Of(info.LastErr) &&
		q.Archived.Unix() == info.LastFailedAt.Unix() {
		return info.Retried + 1
	}
	return info.Retried
}
