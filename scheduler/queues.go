package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/line/asynqdb"
	"github.com/headway-go/headway/internal/line/waitlist"
	"github.com/headway-go/headway/internal/text/nearest"
)

// named is the task with this ID; without a queue, the only one of all queues.
func (s *Scheduler) named(ctx context.Context, queue, id string) (waitlist.Task, error) {
	queues, err := s.queues.QueuesOf(ctx, queue, id)
	if err == nil && len(queues) > 1 {
		err = fmt.Errorf("scheduler: there are %d tasks with the ID %s: name one of the queues, as in %q",
			len(queues), id, queues[0])
	}
	if err != nil {
		return waitlist.Task{}, err
	}
	return waitlist.Task{Queue: queues[0], ID: id}, nil
}

// info is what asynq stores of the task. The error matches asynq.ErrTaskNotFound if there is no such task.
func (s *Scheduler) info(ctx context.Context, t waitlist.Task) (*asynq.TaskInfo, error) {
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
