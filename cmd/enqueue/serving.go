package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/hibiken/asynq"
)

// serving is what takes from a queue.
type serving struct {
	Workers int
	Paused  bool
}

// serverActive is what asynq calls a worker that takes tasks; one that stops takes none any more.
const serverActive = "active"

// serving asks Redis who takes from the queue. A worker that was killed is counted for some seconds more.
func (s *services) serving(ctx context.Context, queue string) (serving, error) {
	if ctx.Err() != nil { // asynq's inspector knows no context
		return serving{}, ctx.Err()
	}
	inspector := asynq.NewInspectorFromRedisClient(s.queue)
	servers, err := inspector.Servers()
	if err != nil {
		return serving{}, fmt.Errorf("look for the workers of queue %s: %w", queue, err)
	}
	var found serving
	for _, server := range servers {
		if server.Queues[queue] > 0 && server.Status == serverActive {
			found.Workers++
		}
	}
	queues, err := inspector.Queues()
	if err != nil {
		return serving{}, fmt.Errorf("list the queues: %w", err)
	}
	if !slices.Contains(queues, queue) { // nothing was ever enqueued there
		return found, nil
	}
	info, err := inspector.GetQueueInfo(queue)
	if err != nil {
		return serving{}, fmt.Errorf("look at queue %s: %w", queue, err)
	}
	found.Paused = info.Paused
	return found, nil
}
