package deadtasks

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/documents"
	"github.com/headway-go/headway/internal/line/asynqdb"
)

// heldFor is how far ahead a held task is scheduled, so that it does not run yet. Its requeue releases it long
// before.
const heldFor = 10 * 365 * 24 * time.Hour

// standing is a task with its state in the queue.
type standing struct {
	Task

	holder string // token of the requeue that holds the task; empty if none does
	runs   bool   // a worker will report its end
}

// hold puts the task into the queue, held, unless the queue has it already. It does not enqueue a task that was held
// before according to its record: if such a task is not in the queue, it has run.
func (r *requeuer) hold(ctx context.Context, t *standing, token string) error {
	const attempts = 3 // the first may find the copy in the archive, the second another writer
	for range attempts {
		if t.State == StateDead && (t.Missing == 0 || t.Payload != nil) {
			err := r.enqueue(ctx, t.Task, token)
			if err == nil {
				t.holder = token
				return nil
			}
			if !errors.Is(err, asynq.ErrTaskIDConflict) {
				return fmt.Errorf("enqueue task %s: %w", t.ID, err)
			}
		}
		info, err := r.inspector.GetTaskInfo(t.Queue, t.ID)
		switch {
		case asynqdb.Gone(err) && t.State == StateRequeueing:
			return nil
		case asynqdb.Gone(err) && t.Missing > 0 && t.Payload == nil:
			return fmt.Errorf("%w: task %s had %d bytes, and is not in asynq's archive", ErrNoPayload, t.ID, t.Missing)
		case asynqdb.Gone(err):
			continue
		case err != nil:
			return fmt.Errorf("look for task %s: %w", t.ID, err)
		case info.State != asynq.TaskStateArchived:
			t.holder, t.runs = holderOf(info), info.State == asynq.TaskStateActive
			return nil
		}
		if t.Missing > 0 {
			t.Payload = info.Payload
		}
		if t.State == StateRequeueing { // the task has run since, and no worker reported its end
			if err := r.store.deadAgain(ctx, t.Task); err != nil {
				return err
			}
			t.State = StateDead
		}
		if err := r.inspector.DeleteTask(t.Queue, t.ID); err != nil && !asynqdb.Gone(err) {
			return fmt.Errorf("take task %s out of asynq's archive: %w", t.ID, err)
		}
	}
	return fmt.Errorf("another process changes task %s in the queue: requeue it again", t.ID)
}

// holderOf returns the token of the requeue that holds the task, or "" if none does.
func holderOf(info *asynq.TaskInfo) string {
	if info.State == asynq.TaskStateScheduled && time.Until(info.NextProcessAt) > heldFor/2 {
		return info.Headers[headerRequeue]
	}
	return ""
}

// enqueue puts the task into the queue, scheduled years ahead.
func (r *requeuer) enqueue(ctx context.Context, t Task, token string) error {
	headers := maps.Clone(t.Headers)
	if headers == nil {
		headers = map[string]string{}
	}
	headers[headerRequeue] = token
	o := []asynq.Option{asynq.TaskID(t.ID), asynq.Queue(t.Queue), asynq.MaxRetry(t.MaxRetry), asynq.ProcessIn(heldFor)}
	if t.Timeout > 0 {
		o = append(o, asynq.Timeout(t.Timeout))
	}
	if t.Deadline.After(time.Now()) {
		o = append(o, asynq.Deadline(t.Deadline))
	}
	if t.Retention > 0 {
		o = append(o, asynq.Retention(t.Retention))
	}
	_, err := r.client.EnqueueContext(ctx, asynq.NewTaskWithHeaders(t.Type, t.Payload, headers), o...)
	return err
}

// release lets a held task run. It is no error if the task was released before.
func (r *requeuer) release(t Task) error {
	err := r.inspector.RunTask(t.Queue, t.ID)
	if err == nil || asynqdb.Gone(err) {
		return nil
	}
	info, again := r.inspector.GetTaskInfo(t.Queue, t.ID)
	if asynqdb.Gone(again) || again == nil && info.State != asynq.TaskStateScheduled {
		return nil
	}
	return fmt.Errorf("release task %s: %w", t.ID, err)
}

// withdraw deletes a task that is held under this token and is not needed. A task that another requeue has released
// meanwhile stays.
func (r *requeuer) withdraw(t Task, token string) error {
	info, err := r.inspector.GetTaskInfo(t.Queue, t.ID)
	if asynqdb.Gone(err) || err == nil && holderOf(info) != token {
		return nil
	}
	// no requeue can release it now: a requeue must claim the record first, and the record is not dead any more
	if err == nil {
		err = r.inspector.DeleteTask(t.Queue, t.ID)
	}
	if err != nil && !asynqdb.Gone(err) {
		return fmt.Errorf("delete held task %s: %w", t.ID, err)
	}
	return nil
}

// claim stores that a requeue with this token works on the tasks with these keys. It adds the keys of the claimed
// tasks to mine.
func (s *Store) claim(ctx context.Context, keys []string, token string, mine map[string]bool) error {
	now, claimed := now(), make([]bool, len(keys))
	changes := make([]documents.Change, len(keys))
	for i, key := range keys {
		changes[i] = change(key, func(h *head, d *documents.Document) (bool, error) {
			dead := h.State == StateDead
			if dead {
				h.State, h.Token, h.Changed, d.Expires = StateRequeueing, token, now, time.Time{}
				h.Requeues = append(h.Requeues, now)
			}
			claimed[i] = h.State == StateRequeueing && h.Token == token
			return dead, nil
		})
	}
	if err := errors.Join(documents.Update(ctx, s.records, changes)...); err != nil {
		return of("claim tasks to requeue", err)
	}
	for i, key := range keys {
		if claimed[i] {
			mine[key] = true
		}
	}
	return nil
}

// deadAgain stores that a claimed task is dead again.
func (s *Store) deadAgain(ctx context.Context, t Task) error {
	err := documents.UpdateOne(ctx, s.records, change(t.key, func(h *head, _ *documents.Document) (bool, error) {
		if h.State != StateRequeueing || h.Token != t.token {
			return false, nil
		}
		h.State, h.Token = StateDead, ""
		return true, nil
	}))
	return of("store that task "+t.ID+" is dead again", err)
}

// requeued stores that tasks are in the queue again. A task that has died again meanwhile stays dead.
func (s *Store) requeued(ctx context.Context, tasks []Task) error {
	now, expires := now(), s.expiry()
	changes := make([]documents.Change, len(tasks))
	for i, t := range tasks {
		changes[i] = change(t.key, func(h *head, d *documents.Document) (bool, error) {
			if !h.At.Equal(t.At) || h.State != StateDead && h.State != StateRequeueing {
				return false, nil
			}
			h.State, h.Token, h.Changed, d.Expires = StateRequeued, "", now, expires
			return true, nil
		})
	}
	return of("store which tasks are requeued", errors.Join(documents.Update(ctx, s.records, changes)...))
}
