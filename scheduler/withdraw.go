package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/waitlist"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
)

// Withdraw deletes a task that is neither running nor finished, and releases its reservations: the tasks behind it
// start sooner, in their order. It returns what asynq knew of the task; nil where there was nothing to delete: the
// task runs, has ended, or does not exist. What an archived or finished task left in Redis stays.
//
// After an error of Redis the task may or may not exist: Withdraw may be called again. Reservations that can't be
// released, because a bucket does not answer or the Scheduler has no limiter, heal by refill.
func (s *Scheduler) Withdraw(ctx context.Context, t Task) (*asynq.TaskInfo, error) {
	info, err := s.info(ctx, t)
	switch {
	case errors.Is(err, asynq.ErrTaskNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	case info.State == asynq.TaskStateActive, info.State == asynq.TaskStateArchived,
		info.State == asynq.TaskStateCompleted:
		return nil, nil
	}
	// First: a worker that takes the task meanwhile keeps both the task and its place.
	if err = s.inspector.DeleteTask(t.Queue, t.ID); err != nil {
		now, again := s.info(ctx, t)
		if errors.Is(again, asynq.ErrTaskNotFound) || again == nil && now.State != info.State {
			return nil, nil // it moved on between the two calls
		}
		return nil, fmt.Errorf("withdraw %s: %w", t, err)
	}
	return info, s.leaveAs(ctx, t, info)
}

// leaveAs removes every trace of a task that will not start from the waitlists, and releases its reservations. Info is
// what asynq knew of the task, nil where that is not known: then reservations heal by refill. The error is Redis's.
func (s *Scheduler) leaveAs(ctx context.Context, t Task, info *asynq.TaskInfo) error {
	var charges []reservations.Charge
	if info != nil {
		task := asynq.NewTaskWithHeaders(info.Type, info.Payload, info.Headers)
		charges, _ = tasks.Charges(task) // unreadable: heals by refill
	}
	return s.leave(ctx, t, charges)
}

func (s *Scheduler) leave(ctx context.Context, t Task, charges []reservations.Charge) error {
	left, err := s.list.Leave(ctx, []waitlist.Task{waitlist.Task(t)})
	if err != nil {
		return fmt.Errorf("take %s out of the waitlists: %w", t, err)
	}
	for _, h := range left[0].Held {
		at := reservations.ParseBucket(h.Bucket)
		i := slices.IndexFunc(charges, func(c reservations.Charge) bool { return c.Limit == at.Limit && c.Key == at.Key })
		if i >= 0 && s.limiter != nil {
			c := charges[i]
			c.Shard = at.Shard
			s.releaseOne(ctx, c, reservations.Reservation{Shard: at.Shard, Promised: h.Reserved})
		}
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
