package overview

import (
	"errors"
	"fmt"
	"slices"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/nearest"
)

// ErrNoQueue is returned for a queue that asynq does not know.
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

// SetPaused pauses or resumes a queue, which may be so already. The error matches ErrNoQueue if there is none: asynq
// pauses any name.
func SetPaused(inspector *asynq.Inspector, queue string, pause bool) error {
	names, err := inspector.Queues()
	if err != nil {
		return fmt.Errorf("list the queues: %w", err)
	}
	if !slices.Contains(names, queue) {
		return fmt.Errorf("%w %q; %s", ErrNoQueue, queue, nearest.There(queue, names))
	}
	change := inspector.UnpauseQueue
	if pause {
		change = inspector.PauseQueue
	}
	if err = change(queue); err != nil { // as asynq refuses to pause a queue twice
		if info, failed := inspector.GetQueueInfo(queue); failed != nil || info.Paused != pause {
			return fmt.Errorf("change queue %s: %w", queue, err)
		}
	}
	return nil
}
