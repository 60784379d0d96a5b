package dispatcher

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/line/envelope"
	"github.com/headway-go/headway/internal/line/waitlist"
	"github.com/headway-go/headway/reservations"
)

// leaver takes tasks out of the waitlists that will not start.
type leaver struct {
	*shared

	inspector *asynq.Inspector
}

// leaveEnded is Leave for a task that ended. Info is what asynq knew of it, nil where that is not known: then
// reservations heal by refill.
func (s *leaver) leaveEnded(ctx context.Context, t waitlist.Task, info *asynq.TaskInfo) error {
	var charges []reservations.Charge
	if info != nil {
		task := asynq.NewTaskWithHeaders(info.Type, info.Payload, info.Headers)
		charges, _ = envelope.Charges(task) // unreadable: heals by refill
	}
	return s.Leave(ctx, t, charges)
}

// Leave removes every trace of a task that will not start from the waitlists, and releases its reservations.
func (s *leaver) Leave(ctx context.Context, t waitlist.Task, charges []reservations.Charge) error {
	return s.LeaveAll(ctx, []waitlist.Task{t}, [][]reservations.Charge{charges})
}

// LeaveAll is Leave for several tasks. Their releases share round trips.
func (s *leaver) LeaveAll(ctx context.Context, gone []waitlist.Task, charges [][]reservations.Charge) error {
	left, err := s.list.Leave(ctx, gone)
	var releasing sync.WaitGroup
	for k, task := range left {
		own := charges[k] //nolint:gosec // one for each of gone, and left is not longer
		for _, h := range task.Held {
			at, _ := reservations.ParseBucket(h.Bucket) // a bad one is of no charge
			i := slices.IndexFunc(own, func(c reservations.Charge) bool { return c.Limit == at.Limit && c.Key == at.Key })
			if i >= 0 && s.limiter != nil && h.Reserved {
				c := own[i]
				c.Shard, c.Held = at.Shard, bucket.StateReserved
				releasing.Go(func() { s.releaseOne(ctx, c) })
			}
		}
	}
	releasing.Wait()
	if err != nil {
		return fmt.Errorf("take %d tasks of queue %s out of the waitlists: %w", len(gone), gone[0].Queue, err)
	}
	return nil
}
