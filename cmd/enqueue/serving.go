package main

import (
	"context"
	"fmt"

	"github.com/headway-go/headway/internal/asynqdb"
)

// serving returns what takes tasks from the queue.
func (s *services) serving(ctx context.Context, queue string) (asynqdb.Serving, error) {
	return asynqdb.New(s.queue).Serving(ctx, queue)
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
