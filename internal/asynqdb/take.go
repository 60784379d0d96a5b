package asynqdb

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/headway-go/headway/internal/lua"
)

// Take moves the wanted tasks from a queue's pending list to its scheduled set, and returns the IDs of the moved
// tasks. asynq delivers them after net, unless they are delayed or woken before. The tasks of left stay pending or
// active, and Pending does not return them again.
func (d *DB) Take(ctx context.Context, queue string, wanted, left []string, net time.Duration) ([]string, error) {
	if len(wanted)+len(left) == 0 {
		return nil, nil
	}
	k := keysOf(queue)
	args := lua.Args(slices.Concat(wanted, left), k.tasks(), int64(net.Seconds()), len(wanted))
	taken, err := d.take.Run(ctx, d.client, []string{k.pending(), k.scheduled()}, args...).StringSlice()
	if err != nil {
		return nil, fmt.Errorf("take tasks of queue %s: %w", queue, err)
	}
	return taken, nil
}

// Delay makes asynq deliver each task not before its time, and returns the IDs of tasks that do not exist. It leaves a
// task that is not scheduled.
func (d *DB) Delay(ctx context.Context, queue string, at map[string]time.Time) (gone []string, err error) {
	if len(at) == 0 {
		return nil, nil
	}
	k := keysOf(queue)
	args := []any{k.tasks()}
	for id, moment := range at {
		args = append(args, id, moment.Unix()+1) // asynq keeps whole seconds
	}
	if gone, err = d.delay.Run(ctx, d.client, []string{k.scheduled()}, args...).StringSlice(); err != nil {
		return nil, fmt.Errorf("delay tasks of queue %s: %w", queue, err)
	}
	return gone, nil
}
