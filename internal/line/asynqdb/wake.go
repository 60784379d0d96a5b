package asynqdb

import (
	"context"
	"fmt"

	"github.com/headway-go/headway/internal/calls/lua"
)

// Wake is what [DB.Wake] did with one task.
type Wake int

const (
	// Unknown is a task that does not exist, or is archived or aggregating. Wake leaves it.
	Unknown Wake = iota
	// Woken is a task that Wake moved to the head of the pending list.
	Woken
	// Away is a task that is pending or completed already.
	Away
	// Active is a task that a worker runs, or has not put back yet.
	Active
)

// passMost is the largest number of tasks that Wake puts others behind. A fleet has more due tasks at once only after
// an outage, and Redis moves that number within a millisecond.
const passMost = 1024

// Wake moves tasks of one queue from asynq's scheduled or retry set to the head of its pending list. It returns what
// it did with each. The first tasks of ids, as many as urgent says, go before all other tasks. The others go behind
// the tasks that were woken before and are not delivered yet. Both parts keep the order of ids.
//
// asynq's Inspector.RunTask needs four round trips for each task and puts it behind the whole backlog.
func (d *DB) Wake(ctx context.Context, queue string, ids []string, urgent int) ([]Wake, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	k := keysOf(queue)
	args := lua.Args(ids, k.tasks(), urgent, passMost)
	answer, err := d.wake.Run(ctx, d.client, []string{k.pending(), k.scheduled(), k.retry()}, args...).Int64Slice()
	if err == nil && len(answer) != len(ids) {
		err = fmt.Errorf("%d answers for %d tasks", len(answer), len(ids))
	}
	if err != nil {
		return nil, fmt.Errorf("wake tasks of queue %s: %w", queue, err)
	}
	wakes := make([]Wake, len(ids))
	for i, w := range answer {
		wakes[i] = Wake(w)
	}
	return wakes, nil
}
