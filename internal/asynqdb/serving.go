package asynqdb

import (
	"context"
	"fmt"
)

// Serving is what takes tasks from a queue.
type Serving struct {
	Workers int
	Paused  bool
}

// serverActive is asynq's status of a server that takes tasks. A stopping server takes none.
const serverActive = "active"

// Serving returns what takes tasks from a queue. A worker that was killed counts for some seconds more.
func (d *DB) Serving(ctx context.Context, queue string) (Serving, error) {
	paused, err := d.Paused(ctx, []string{queue})
	if err != nil {
		return Serving{}, err
	}
	servers, err := d.inspector.Servers()
	if err != nil {
		return Serving{}, fmt.Errorf("look for the workers of queue %s: %w", queue, err)
	}
	serving := Serving{Paused: paused[queue]}
	for _, server := range servers {
		if server.Queues[queue] > 0 && server.Status == serverActive {
			serving.Workers++
		}
	}
	return serving, nil
}
