package asynqdb

import (
	"cmp"
	"context"
	"fmt"
	"strconv"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/calls/lua"
)

const (
	// deleteMost is how many tasks one script deletes.
	deleteMost = 500
	// deleteBytes is about how much of messages one script reads: Redis serves no other client meanwhile.
	deleteBytes = 4 << 20
)

// Delete deletes the tasks that are pending, scheduled or to be retried, and returns them by ID. A task of
// an asynq group stays. A task whose message is unreadable is returned without content. After an error, Delete
// returns the tasks that it deleted before.
func (d *DB) Delete(ctx context.Context, queue string, ids []string) (map[string]*asynq.Task, error) {
	deleted, k := map[string]*asynq.Task{}, keysOf(queue)
	for len(ids) > 0 {
		args := lua.Args(ids[:min(len(ids), deleteMost)], k.tasks(), deleteBytes)
		in := []string{k.pending(), k.scheduled(), k.retry()}
		answer, err := d.remove.Run(ctx, d.client, in, args...).StringSlice()
		if err != nil {
			return deleted, fmt.Errorf("delete tasks of queue %s: %w", queue, err)
		}
		read, err := strconv.Atoi(answer[0])
		if err != nil {
			return deleted, fmt.Errorf("delete tasks of queue %s: %w", queue, err)
		}
		for i := 1; i+1 < len(answer); i += 2 {
			task, _ := DecodeMessage([]byte(answer[i+1]))
			deleted[answer[i]] = cmp.Or(task, asynq.NewTask("", nil))
		}
		ids = ids[read:]
	}
	return deleted, nil
}
