package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
)

// Withdraw takes a task back that has not ended and does not run, and gives its places back to their buckets: those who come from now on find room, and
// those who stand behind it come sooner, in their order, as soon as the workers' waker has seen that nothing else needs what comes back. It returns what asynq knew of the task; nil where there was nothing to take back: the task runs, has ended, or is not
// there. What an archived or finished task left in Redis stays.
//
// After an error of Redis the task may or may not be there: Withdraw may be called again. Places that can't be given back, because a bucket does not answer
// or the Scheduler has no limiter, are healed by refill.
func (s *Scheduler) Withdraw(ctx context.Context, t Task) (*asynq.TaskInfo, error) {
	info, err := s.info(ctx, t)
	switch {
	case errors.Is(err, asynq.ErrTaskNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	case info.State == asynq.TaskStateActive, info.State == asynq.TaskStateArchived, info.State == asynq.TaskStateCompleted:
		return nil, nil
	}
	// First: whoever has the task no more has no place to lose, and a worker that takes it meanwhile keeps both.
	if err = s.waker.inspector.DeleteTask(t.Queue, t.ID); err != nil {
		now, again := s.info(ctx, t)
		if errors.Is(again, asynq.ErrTaskNotFound) || again == nil && now.State != info.State {
			return nil, nil // it moved on between the two calls
		}
		return nil, fmt.Errorf("withdraw %s: %w", t, err)
	}
	held, err := s.Recall(ctx, t)
	if err != nil {
		s.config.Logger.DebugContext(ctx, "place of a withdrawn task not found", slog.String("task_id", t.ID), slog.Any("error", err))
	}
	s.release(ctx, t, info, held)
	return info, nil
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

// release gives the places of a task back that is no more.
func (s *Scheduler) release(ctx context.Context, t Task, info *asynq.TaskInfo, held []Held) {
	if s.limiter == nil || len(held) == 0 {
		return
	}
	charges, err := tasks.Charges(asynq.NewTaskWithHeaders(info.Type, info.Payload, info.Headers))
	for _, h := range held {
		i := slices.IndexFunc(charges, h.For)
		if err != nil || i < 0 {
			continue
		}
		outcome, failed := s.limiter.Release(ctx, charges[i], h.Place)
		if failed != nil {
			level := slog.LevelDebug
			if s.unfreed.now(time.Now()) {
				level = slog.LevelWarn
			}
			s.config.Logger.Log(ctx, level, "place of a withdrawn task not given back; others are told of at debug level for a minute",
				slog.String("task_id", t.ID), slog.String("bucket", h.Bucket), slog.Any("error", failed))
			continue
		}
		bucket := charges[i]
		bucket.Shard = outcome.Shard
		gap := time.Duration(0)
		if h.Generation == outcome.Generation && h.State.FirstCharged() < reservations.LedgerCount {
			gap = s.limiter.Lasts(bucket)
		}
		s.withdrawn(bucket.Bucket(), outcome, gap)
	}
}
