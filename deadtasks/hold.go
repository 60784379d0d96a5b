package deadtasks

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/hibiken/asynq"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// heldFor is how far ahead a task is scheduled that must not run yet. It is let go long before.
const heldFor = 10 * 365 * 24 * time.Hour

// standing is what the queue has of a task.
type standing struct {
	held  bool   // it waits to be let go
	runs  bool   // how it ends will be reported; otherwise it is in the queue, or was
	token string // of the requeue that holds it
}

// hold sees to it that the task is in the queue, held where it was not there. A task whose record says that it was held
// before is not enqueued once more: where it is not there, it ran.
func (r *Requeuer) hold(ctx context.Context, t Task, token string) (standing, error) {
	const attempts = 3 // each has another reason to fail: the archive's copy, and another writer
	for range attempts {
		if ctx.Err() != nil { // asynq's inspector knows no context
			return standing{}, ctx.Err()
		}
		if t.State == StateDead && (t.Missing == 0 || t.Payload != nil) {
			err := r.enqueue(ctx, t, token)
			if err == nil {
				return standing{held: true, token: token}, nil
			}
			if !errors.Is(err, asynq.ErrTaskIDConflict) {
				return standing{}, fmt.Errorf("enqueue task %s: %w", t.ID, err)
			}
		}
		info, err := r.inspector.GetTaskInfo(t.Queue, t.ID)
		switch {
		case gone(err) && t.State == StateRequeueing:
			return standing{}, nil
		case gone(err) && t.Missing > 0 && t.Payload == nil:
			return standing{}, fmt.Errorf("%w: task %s had %d bytes, and is not in asynq's archive", ErrNoPayload, t.ID,
				t.Missing)
		case gone(err):
			continue
		case err != nil:
			return standing{}, fmt.Errorf("look for task %s: %w", t.ID, err)
		case holder(info) != "":
			return standing{held: true, token: holder(info)}, nil
		case info.State == asynq.TaskStateActive:
			return standing{runs: true}, nil
		case info.State != asynq.TaskStateArchived:
			return standing{}, nil
		}
		if t.Missing > 0 {
			t.Payload = info.Payload
		}
		if t.State == StateRequeueing { // it ran since, and its end was not reported
			if err := r.store.deadAgain(ctx, t); err != nil {
				return standing{}, err
			}
			t.State = StateDead
		}
		if err := r.inspector.DeleteTask(t.Queue, t.ID); err != nil && !gone(err) {
			return standing{}, fmt.Errorf("take task %s out of asynq's archive: %w", t.ID, err)
		}
	}
	return standing{}, fmt.Errorf("task %s changes in the queue at the same time: requeue it again", t.ID)
}

// holder is the token of the requeue that holds the task; empty where it is not held.
func holder(info *asynq.TaskInfo) string {
	if info.State == asynq.TaskStateScheduled && time.Until(info.NextProcessAt) > heldFor/2 {
		return info.Headers[headerRequeue]
	}
	return ""
}

func gone(err error) bool {
	return errors.Is(err, asynq.ErrTaskNotFound) || errors.Is(err, asynq.ErrQueueNotFound)
}

// enqueue puts the task into the queue, to run in years.
func (r *Requeuer) enqueue(ctx context.Context, t Task, token string) error {
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

// release lets a held task run. One that is let go already is fine.
func (r *Requeuer) release(ctx context.Context, t Task) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	err := r.inspector.RunTask(t.Queue, t.ID)
	if err == nil || gone(err) {
		return nil
	}
	info, again := r.inspector.GetTaskInfo(t.Queue, t.ID)
	if gone(again) || again == nil && info.State != asynq.TaskStateScheduled {
		return nil
	}
	return fmt.Errorf("let task %s run: %w", t.ID, err)
}

// withdraw takes a task back that was held in vain under this token. One that another requeue has let go meanwhile
// stays: it is the task.
func (r *Requeuer) withdraw(ctx context.Context, t Task, token string) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	info, err := r.inspector.GetTaskInfo(t.Queue, t.ID)
	if gone(err) || err == nil && holder(info) != token {
		return nil
	}
	// no requeue releases it from here on: a requeue has to claim the record first, which is not dead any more
	if err == nil {
		err = r.inspector.DeleteTask(t.Queue, t.ID)
	}
	if err != nil && !gone(err) {
		return fmt.Errorf("take task %s back: %w", t.ID, err)
	}
	return nil
}

// claim stores that the tasks with these keys are being requeued under a token, and adds the tasks that are to mine.
func (s *Store) claim(ctx context.Context, keys []string, token string, mine map[string]bool) error {
	among := bson.M{"$in": keys}
	claimed := bson.M{fieldState: StateRequeueing, fieldToken: token, fieldChanged: s.now()}
	_, err := s.records.UpdateMany(ctx, bson.M{"_id": among, fieldState: StateDead}, bson.M{"$set": claimed})
	if err != nil {
		return unavailable("note that tasks are requeued", err)
	}
	o := options.Find().SetProjection(bson.M{"_id": 1})
	cursor, err := s.records.Find(ctx, bson.M{"_id": among, fieldState: StateRequeueing, fieldToken: token}, o)
	var found []struct {
		ID string `bson:"_id"`
	}
	if err == nil {
		err = cursor.All(ctx, &found)
	}
	if err != nil {
		return unavailable("read what is requeued", err)
	}
	for _, d := range found {
		mine[d.ID] = true
	}
	return nil
}

// deadAgain stores that a task which was being requeued is dead.
func (s *Store) deadAgain(ctx context.Context, t Task) error {
	filter := bson.M{"_id": t.key, fieldState: StateRequeueing, fieldToken: t.token}
	update := bson.M{"$set": bson.M{fieldState: StateDead}, "$unset": bson.M{fieldToken: ""}}
	if _, err := s.records.UpdateOne(ctx, filter, update); err != nil {
		return unavailable("note that task "+t.ID+" is dead again", err)
	}
	return nil
}

// requeued stores that tasks are in the queue again. A task that has died anew meanwhile stays dead.
func (s *Store) requeued(ctx context.Context, tasks []Task) error {
	if len(tasks) == 0 {
		return nil
	}
	now := s.now()
	update := bson.M{
		"$set":   bson.M{fieldState: StateRequeued, fieldChanged: now, fieldExpires: s.expiry()},
		"$push":  bson.M{"requeues": now},
		"$unset": bson.M{fieldToken: ""},
	}
	models := make([]mongo.WriteModel, len(tasks))
	for i, t := range tasks {
		filter := bson.M{"_id": t.key, fieldAt: t.At, fieldState: bson.M{"$in": bson.A{StateDead, StateRequeueing}}}
		models[i] = mongo.NewUpdateOneModel().SetFilter(filter).SetUpdate(update)
	}
	if _, err := s.records.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false)); err != nil {
		return unavailable("note what is requeued", err)
	}
	return nil
}
