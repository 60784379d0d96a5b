package asynqdb

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// Serving is what takes tasks from a queue.
type Serving struct {
	Workers int
	Paused  bool
	// Tasks is the number of tasks in the queue that have not ended.
	Tasks int
}

// serverActive is asynq's status of a server that takes tasks. A stopping server takes none.
const serverActive = "active"

// Serving returns what takes tasks from a queue. A worker that was killed counts for some seconds more.
func (d *DB) Serving(ctx context.Context, queue string) (Serving, error) {
	k := keysOf(queue)
	pipe := d.client.Pipeline()
	paused := pipe.Exists(ctx, k.paused())
	sizes := []*redis.IntCmd{
		pipe.LLen(ctx, k.pending()), pipe.LLen(ctx, k.active()),
		pipe.ZCard(ctx, k.scheduled()), pipe.ZCard(ctx, k.retry()),
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return Serving{}, fmt.Errorf("look at queue %s: %w", queue, err)
	}
	servers, err := d.inspector.Servers()
	if err != nil {
		return Serving{}, fmt.Errorf("look for the workers of queue %s: %w", queue, err)
	}
	serving := Serving{Paused: paused.Val() > 0}
	for _, n := range sizes {
		serving.Tasks += int(n.Val())
	}
	for _, server := range servers {
		if server.Queues[queue] > 0 && server.Status == serverActive {
			serving.Workers++
		}
	}
	return serving, nil
}
