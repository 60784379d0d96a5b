package state

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/line/asynqdb"
	"github.com/headway-go/headway/internal/text/nearest"
)

// ErrNoQueue is returned for a queue that neither asynq nor a live worker knows.
var ErrNoQueue = errors.New("there is no queue")

// Queues reads all queues, in the order of their names.
func Queues(inspector *asynq.Inspector) ([]*asynq.QueueInfo, error) {
	names, err := inspector.Queues()
	if err != nil {
		return nil, fmt.Errorf("list the queues: %w", err)
	}
	slices.Sort(names)
	queues := make([]*asynq.QueueInfo, len(names))
	for i, name := range names {
		if queues[i], err = inspector.GetQueueInfo(name); err != nil {
			return nil, fmt.Errorf("queue %q: %w", name, err)
		}
	}
	return queues, nil
}

// SetPaused pauses or resumes a queue. It does nothing and returns false where the queue is so already. The error
// matches ErrNoQueue if there is none, as asynq pauses any name: a queue has had a task, is paused, or is one that a
// live worker takes from.
func SetPaused(ctx context.Context, client redis.UniversalClient, queue string, pause bool) (changed bool, err error) {
	inspector, db := asynq.NewInspectorFromRedisClient(client), asynqdb.New(client)
	is, err := db.Paused(ctx, []string{queue})
	if err != nil {
		return false, err
	}
	if !is[queue] {
		if err = exists(inspector, queue); err != nil {
			return false, err
		}
	}
	if is[queue] == pause {
		return false, nil
	}
	change := inspector.UnpauseQueue
	if pause {
		change = inspector.PauseQueue
	}
	if err = change(queue); err != nil { // also where another was faster
		if is, failed := db.Paused(ctx, []string{queue}); failed != nil || is[queue] != pause {
			return false, fmt.Errorf("change queue %s: %w", queue, err)
		}
	}
	return true, nil
}

// exists returns an error that matches ErrNoQueue if the queue has never had a task, and no live worker takes from it.
func exists(inspector *asynq.Inspector, queue string) error {
	names, err := inspector.Queues()
	if err != nil {
		return fmt.Errorf("list the queues: %w", err)
	}
	workers, err := inspector.Servers()
	if err != nil {
		return fmt.Errorf("list the workers: %w", err)
	}
	for _, w := range workers {
		names = slices.AppendSeq(names, maps.Keys(w.Queues))
	}
	slices.Sort(names)
	if names = slices.Compact(names); !slices.Contains(names, queue) {
		return fmt.Errorf("%w %q; %s", ErrNoQueue, queue, nearest.There(queue, names))
	}
	return nil
}
