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

// goesOn says what becomes of a batch for which nobody waits any more. A context that has ended does not matter.
func (s *services) goesOn(ctx context.Context, queue string) string {
	by, err := s.serving(context.WithoutCancel(ctx), queue)
	switch {
	case err != nil:
		return "the others stay in the queue, and the same command goes on"
	case by.Paused:
		return fmt.Sprintf("queue %q is paused, so the others wait until it is resumed; the same command goes on", queue)
	case by.Workers == 0:
		return fmt.Sprintf("no worker takes from queue %q, so the others wait until one does; the same command goes on", queue)
	}
	return "the workers go on, and so does the same command"
}
