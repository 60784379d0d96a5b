package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/waitlist"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
)

// Withdraw deletes tasks of a queue that neither run nor have ended, and releases their reservations: the tasks
// behind them start sooner, in their order. It returns a task for each ID; nil where there was nothing to delete: the
// task runs, has ended, or does not exist. What an archived or finished task left in Redis stays.
//
// After an error of Redis, Withdraw returns the tasks that it deleted before. Others may or may not exist: Withdraw
// may be called again. Reservations that can't be released, because a bucket does not answer or the Scheduler has no
// limiter, heal by refill.
func (s *Scheduler) Withdraw(ctx context.Context, queue string, ids ...string) ([]*asynq.Task, error) {
	// First: a worker that takes a task meanwhile keeps both the task and its place.
	deleted, err := s.queues.Delete(ctx, queue, ids)
	withdrawn := make([]*asynq.Task, len(ids))
	var gone []waitlist.Task
	var charges [][]reservations.Charge
	for i, id := range ids {
		task, ok := deleted[id]
		if !ok {
			continue
		}
		delete(deleted, id) // an ID that is there twice counts once
		withdrawn[i] = task
		charged, _ := tasks.Charges(task) // unreadable: heals by refill
		gone, charges = append(gone, waitlist.Task{Queue: queue, ID: id}), append(charges, charged)
	}
	return withdrawn, errors.Join(err, s.leaveAll(ctx, gone, charges))
}

// leaveEnded removes every trace of a task that will not start from the waitlists, and releases its reservations. Info
// is what asynq knew of the task, nil where that is not known: then reservations heal by refill. The error is of Redis.
func (s *Scheduler) leaveEnded(ctx context.Context, t Task, info *asynq.TaskInfo) error {
	var charges []reservations.Charge
	if info != nil {
		task := asynq.NewTaskWithHeaders(info.Type, info.Payload, info.Headers)
		charges, _ = tasks.Charges(task) // unreadable: heals by refill
	}
	return s.leave(ctx, t, charges)
}

func (s *Scheduler) leave(ctx context.Context, t Task, charges []reservations.Charge) error {
	return s.leaveAll(ctx, []waitlist.Task{waitlist.Task(t)}, [][]reservations.Charge{charges})
}

// leaveAll is leave for several tasks. Their releases share round trips.
func (s *Scheduler) leaveAll(ctx context.Context, gone []waitlist.Task, charges [][]reservations.Charge) error {
	left, err := s.list.Leave(ctx, gone)
	var releasing sync.WaitGroup
	for k, task := range left {
		for _, h := range task.Held {
			at := reservations.ParseBucket(h.Bucket)
			i := slices.IndexFunc(charges[k], func(c reservations.Charge) bool {
				return c.Limit == at.Limit && c.Key == at.Key
			})
			if i >= 0 && s.limiter != nil {
				c := charges[k][i]
				c.Shard = at.Shard
				releasing.Go(func() {
					s.releaseOne(ctx, c, reservations.Reservation{Shard: at.Shard, Promised: h.Reserved})
				})
			}
		}
	}
	releasing.Wait()
	if err != nil {
		return fmt.Errorf("take %d tasks of queue %s out of the waitlists: %w", len(gone), gone[0].Queue, err)
	}
	return nil
}

// Drop removes every trace of a delivered task that will not start, because its worker refuses it.
func (s *Scheduler) Drop(ctx context.Context, t Task, turn Turn) error {
	if turn.Status == StatusNew {
		return nil
	}
	return s.leave(ctx, t, turn.Charges)
}

// seldomEvery is how long a warning stands for others like it.
const seldomEvery = time.Minute

// seldom lets one of many warnings through. Safe for concurrent use.
type seldom struct{ next atomic.Int64 }

// now says whether it is time for the next one.
func (s *seldom) now(at time.Time) bool {
	next := s.next.Load()
	return at.UnixNano() >= next && s.next.CompareAndSwap(next, at.Add(seldomEvery).UnixNano())
}
