package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// Find returns the tasks with this ID, in the order of their queues: asynq keeps IDs apart by queue. The error matches asynq.ErrTaskNotFound
// where there is none, or is Redis's.
func (s *Scheduler) Find(ctx context.Context, id string) ([]Task, error) {
	queues, err := s.waker.inspector.Queues()
	if err != nil {
		return nil, fmt.Errorf("list the queues: %w", err)
	}
	slices.Sort(queues)
	var found []Task
	for _, queue := range queues {
		if ctx.Err() != nil { // asynq's inspector knows no context
			return nil, fmt.Errorf("look for task %s: %w", id, ctx.Err())
		}
		_, err := s.waker.inspector.GetTaskInfo(queue, id)
		switch {
		case err == nil:
			found = append(found, Task{Queue: queue, ID: id})
		case !gone(err):
			return nil, fmt.Errorf("look for task %s in queue %s: %w", id, queue, err)
		}
	}
	if len(queues) == 0 {
		return nil, fmt.Errorf("%w: there is no %s, and no queue: this Redis is another one than that of the workers, or nothing was enqueued yet", asynq.ErrTaskNotFound, id)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%w: there is no %s in the queues %q; asynq forgets a task once it is done, unless it was enqueued to be kept", asynq.ErrTaskNotFound, id, queues)
	}
	return found, nil
}

// info is what asynq knows of the task. The error matches asynq.ErrTaskNotFound where there is none.
func (s *Scheduler) info(ctx context.Context, t Task) (*asynq.TaskInfo, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("look for %s: %w", t, ctx.Err())
	}
	info, err := s.waker.inspector.GetTaskInfo(t.Queue, t.ID)
	if errors.Is(err, asynq.ErrQueueNotFound) {
		err = fmt.Errorf("%w: there is no queue %q", asynq.ErrTaskNotFound, t.Queue)
		if queues, failed := s.waker.inspector.Queues(); failed == nil && len(queues) > 0 {
			slices.Sort(queues)
			err = fmt.Errorf("%w; there are %q", err, queues)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("look for %s: %w", t, err)
	}
	return info, nil
}

// queueState is what stands between a task that is ready and its worker.
type queueState struct {
	before  int // tasks that are taken before it; negative where it is not in the list of those
	paused  bool
	workers int // that take from the queue
	others  int // that take from other queues only

	worker  string // that runs the task, host:pid; empty where none says so
	started time.Time
	lease   time.Time // until when its worker has the task, by that worker's clock; zero where no worker has it

	archived time.Time // since when it is in the archive, in whole seconds; zero where it is not there
}

// orphaned says that the worker that has the task is gone: it renews its lease no more, or no worker of the queue shows itself. A worker's sign of
// life ends sooner than its leases do, but those of one worker can't be told from another's.
//
// GetTaskInfo does not say so: asynq fills in TaskInfo.IsOrphaned where it lists tasks, and nowhere else.
func (q queueState) orphaned(now time.Time) bool {
	return !q.lease.IsZero() && (q.lease.Before(now) || q.workers == 0 && q.worker == "")
}

// failures is how often the task failed: asynq counts those failures only after which it was tried again. One that it archived for a failure is in the
// archive since then; one that a person archived, since later.
func (q queueState) failures(info *asynq.TaskInfo) int {
	if info.State == asynq.TaskStateArchived && info.LastErr != "" && !deferral(info.LastErr) && q.archived.Unix() == info.LastFailedAt.Unix() {
		return info.Retried + 1
	}
	return info.Retried
}

// queueState reads the state of the task's queue. The keys are asynq's own, as for front: should they ever be others, a task's place,
// a pause and a lease are not known.
func (s *Scheduler) queueState(ctx context.Context, t Task) (queueState, error) {
	q := queueState{before: -1}
	key := keysOf(t.Queue)
	pipe := s.lines.client.Pipeline()
	position, length := pipe.LPos(ctx, key+"pending", t.ID, redis.LPosArgs{}), pipe.LLen(ctx, key+"pending")
	paused, lease, archived := pipe.Exists(ctx, key+"paused"), pipe.ZScore(ctx, key+"lease", t.ID), pipe.ZScore(ctx, key+"archived", t.ID)
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return q, fmt.Errorf("look at queue %s: %w", t.Queue, err)
	}
	if position.Err() == nil { // new ones are pushed on the left, workers take from the right
		q.before = int(length.Val() - 1 - position.Val())
	}
	if lease.Err() == nil {
		q.lease = time.Unix(int64(lease.Val()), 0).UTC()
	}
	if archived.Err() == nil {
		q.archived = time.Unix(int64(archived.Val()), 0).UTC()
	}
	q.paused = paused.Val() > 0
	servers, err := s.waker.inspector.Servers()
	if err != nil {
		return q, fmt.Errorf("look for the workers of queue %s: %w", t.Queue, err)
	}
	for _, server := range servers {
		if server.Queues[t.Queue] > 0 {
			q.workers++
		} else {
			q.others++
		}
		for _, w := range server.ActiveWorkers {
			if w.TaskID == t.ID && w.Queue == t.Queue {
				q.worker, q.started = fmt.Sprintf("%s:%d", server.Host, server.PID), w.Started
			}
		}
	}
	return q, nil
}
