package scheduler

import (
	"context"
	"errors"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/line/envelope"
	"github.com/headway-go/headway/internal/line/waitlist"
	"github.com/headway-go/headway/reservations"
)

// Delete deletes the tasks of a queue that neither run nor have ended, and releases their reservations: the tasks
// behind them start sooner, in their order. It returns a task for each ID; nil where there was nothing to delete: the
// task runs, has ended, or does not exist. What an archived or finished task left in Redis stays.
//
// After an error of Redis, Delete returns the tasks that it deleted before. Others may or may not exist: Delete
// may be called again. Reservations that can't be released, because a bucket does not answer or the Scheduler has no
// limiter, heal by refill.
func (s *Scheduler) Delete(ctx context.Context, queue string, ids ...string) ([]*asynq.Task, error) {
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
		charged, _ := envelope.Charges(task) // unreadable: heals by refill
		gone, charges = append(gone, waitlist.Task{Queue: queue, ID: id}), append(charges, charged)
	}
	return withdrawn, errors.Join(err, s.dispatcher.LeaveAll(ctx, gone, charges))
}
