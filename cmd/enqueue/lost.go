package main

import (
	"context"
	"fmt"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/batches"
	"github.com/headway-go/headway/internal/asynqdb"
	"github.com/headway-go/headway/tasks"
)

// A worker extends the leases of its tasks to 30 s every 5 s. Workers put a task back 30 s after its lease has ended; they look for such tasks
// once a minute. All of that is asynq's.
const (
	leaseLeast   = 20 * time.Second // what a lease has left at least while its worker lives
	recoverAfter = 30 * time.Second
	recoverEvery = time.Minute
)

// lost are requests whose workers are gone.
type lost struct {
	requests int
	in       time.Duration // until asynq puts them back, at the earliest; recoverEvery later at the latest
}

// lost returns the requests of a batch whose workers are gone, if there are no others that wait. Otherwise it returns none.
func (s *services) lost(ctx context.Context, b batches.Batch, waiting int) (lost, error) {
	var active []string
	inspector := asynq.NewInspectorFromRedisClient(s.queue)
	what := "list the tasks of queue " + b.Queue + " that run"
	err := eachPage(ctx, b.Queue, inspector.ListActiveTasks, what, func(infos []*asynq.TaskInfo) error {
		for _, info := range infos {
			if ref, ok := tasks.ParseBatchRef(info.ID); ok && ref.Batch == b.ID {
				active = append(active, info.ID)
			}
		}
		return nil
	})
	if err != nil || len(active) == 0 || len(active) < waiting {
		return lost{}, err
	}
	servers, err := inspector.Servers()
	if err != nil {
		return lost{}, fmt.Errorf("look for the workers of queue %s: %w", b.Queue, err)
	}
	held := map[string]bool{}
	for _, server := range servers {
		for _, w := range server.ActiveWorkers {
			held[w.TaskID] = true
		}
	}
	var l lost
	for _, id := range active {
		if !held[id] {
			l.requests++
		}
	}
	if l.requests < waiting {
		return lost{}, nil
	}
	for _, id := range active { // a worker that has just taken a task does not show it yet, but its lease is new
		if held[id] {
			continue
		}
		state, err := asynqdb.New(s.queue).State(ctx, b.Queue, id)
		in := time.Until(state.Lease)
		if err != nil || state.Lease.IsZero() || in > leaseLeast {
			return lost{}, err
		}
		l.in = max(0, in+recoverAfter)
		break
	}
	return l, nil
}

// lose adds that all requests that wait are lost: their end is that of their leases.
func (f *figures) lose(l lost) {
	f.Lost, f.lostIn = l.requests, l.in
	if f.Lost > 0 {
		left := l.in.Seconds()
		f.Left, f.LeftBy = &left, byLease
	}
}

func (f *figures) lostText() string {
	return fmt.Sprintf("nothing runs: %s on workers that are gone; asynq puts them back in %s to %s",
		plural(f.Lost, "request was", "requests were"), leftText(f.lostIn.Seconds()), leftText((f.lostIn + recoverEvery).Seconds()))
}

func plural(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return count(n) + " " + more
}
