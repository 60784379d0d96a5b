package asynqdb

import (
	"cmp"
	"context"
	"fmt"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/lua"
)

// deleteMost is how many tasks one script deletes.
const deleteMost = 500

// Delete deletes the tasks that are pending, scheduled or to be retried, and returns them by ID. A task of
// an asynq group stays. A task whose message is unreadable is returned without content. After an error, Delete
// returns the tasks that it deleted before.
func (d *DB) Delete(ctx context.Context, queue string, ids []string) (map[string]*asynq.Task, error) {
	deleted, k := map[string]*asynq.Task{}, keysOf(queue)
	for len(ids) > 0 {
		args := lua.Args(ids[:min(len(ids), deleteMost)], k.tasks(), pendingBytes)
		in := []string{k.pending(), k.scheduled(), k.retry()}
		read, tasks, err := counted(d.remove.Run(ctx, d.client, in, args...).StringSlice())
		if err != nil {
			return deleted, fmt.Errorf("delete tasks of queue %s: %w", queue, err)
		}
		for _, t := range tasks {
			deleted[t.ID] = cmp.Or(t.Task, asynq.NewTask("", nil))
		}
		ids = ids[read:]
	}
	return deleted, nil
}
