package overview

import (
	"fmt"
	"slices"

	"github.com/hibiken/asynq"
)

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
