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

// Queue is one queue of asynq. Times are seconds.
type Queue struct {
	Queue  string `json:"queue"`
	Paused bool   `json:"paused"`
	// Pending tasks can be delivered at once, Active ones are with a worker. Scheduled and Retry hold the tasks that
	// wait for their limits, and the tasks that wait for their time.
	Pending   int `json:"pending"`
	Active    int `json:"active"`
	Scheduled int `json:"scheduled"`
	Retry     int `json:"retry"`
	Completed int `json:"completed"`
	// Archived are the dead tasks that asynq has.
	Archived int `json:"archived"`
	// Latency is how long the oldest pending task has been pending.
	Latency float64 `json:"latency_seconds"`
	// ProcessedToday and FailedToday are asynq's counts of deliveries since midnight UTC.
	ProcessedToday int `json:"processed_today"`
	FailedToday    int `json:"failed_today"`
}

// Queues reads all queues, in the order of their names.
func Queues(inspector *asynq.Inspector) ([]Queue, error) {
	names, err := inspector.Queues()
	if err != nil {
		return nil, fmt.Errorf("list the queues: %w", err)
	}
	slices.Sort(names)
	queues := make([]Queue, 0, len(names))
	for _, name := range names {
		info, err := inspector.GetQueueInfo(name)
		if err != nil {
			return nil, fmt.Errorf("queue %q: %w", name, err)
		}
		queues = append(queues, Queue{
			Queue: name, Paused: info.Paused, Pending: info.Pending, Active: info.Active, Scheduled: info.Scheduled,
			Retry: info.Retry, Completed: info.Completed, Archived: info.Archived, Latency: info.Latency.Seconds(),
			ProcessedToday: info.Processed, FailedToday: info.Failed,
		})
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
