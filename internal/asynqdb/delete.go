package asynqdb

import (
	"context"
	"fmt"
	"strconv"

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
		answer, err := d.remove.Run(ctx, d.client, []string{k.pending(), k.scheduled(), k.retry()}, args...).StringSlice()
		read := 0
		if err == nil {
			read, err = strconv.Atoi(answer[0])
		}
		if err != nil {
			return deleted, fmt.Errorf("delete tasks of queue %s: %w", queue, err)
		}
		for i := 1; i+1 < len(answer); i += 2 {
			task, err := DecodeMessage([]byte(answer[i+1]))
			if err != nil {
				task = asynq.NewTask("", nil)
			}
			deleted[answer[i]] = task
		}
		ids = ids[read:]
	}
	return deleted, nil
}
