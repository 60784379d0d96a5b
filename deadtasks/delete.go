package deadtasks

import (
	"context"
	"errors"
	"fmt"

	"github.com/hibiken/asynq"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Delete forgets a dead task for good: in asynq's archive, so that no worker finds it there again, and then its record. A task that is in the queue stays there. The error
// matches [ErrNotFound] where it has no dead record.
func (r *Requeuer) Delete(ctx context.Context, t Task) error {
	if t.State != StateDead {
		return fmt.Errorf("%w: task %s in queue %s is %s", ErrNotFound, t.ID, t.Queue, t.State)
	}
	info, err := r.inspector.GetTaskInfo(t.Queue, t.ID)
	if err == nil && info.State == asynq.TaskStateArchived {
		err = r.inspector.DeleteTask(t.Queue, t.ID)
	}
	if err != nil && !gone(err) {
		return fmt.Errorf("take task %s out of asynq's archive: %w", t.ID, errors.Join(err, ctx.Err()))
	}
	found, err := r.store.records.DeleteOne(ctx, bson.M{"_id": t.key, fieldState: StateDead})
	if err != nil {
		return unavailable("delete the record of task "+t.ID, err)
	}
	if found.DeletedCount == 0 {
		return fmt.Errorf("%w of a dead task %s in queue %s", ErrNotFound, t.ID, t.Queue)
	}
	return nil
}
