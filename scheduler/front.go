package scheduler

import (
	"context"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"
)

// frontScript moves tasks that were just woken from the tail of their queue to its head.
//
//	KEYS[1] -> asynq's list of pending tasks: new ones are pushed on its left, workers take from its right
//	ARGV    -> task IDs, the last one to be taken first
//
// Output: how many were moved. A task that a worker took meanwhile is not there any more, and stays taken.
const frontScript = `
local moved = 0
for _, id in ipairs(ARGV) do
	if redis.call("LREM", KEYS[1], 1, id) == 1 then
		redis.call("RPUSH", KEYS[1], id)
		moved = moved + 1
	end
end
return moved
`

// front lets tasks whose time has come pass those that have not been sorted yet: Inspector.RunTask puts them behind the
// whole backlog, where they would be late by what it takes to sort it. The key is asynq's own and not part of its public
// interface; should it ever be another, nothing is found there, nothing is moved, and tasks are woken as RunTask does.
type front struct {
	client redis.UniversalClient
	script *redis.Script
}

func newFront(client redis.UniversalClient) front {
	return front{client: client, script: redis.NewScript(frontScript)}
}

// move puts the tasks, the first of which is due first, to the head of their queues.
func (f front) move(ctx context.Context, tasks []Task) error {
	queues := map[string][]any{}
	for _, t := range slices.Backward(tasks) {
		queues[t.Queue] = append(queues[t.Queue], t.ID)
	}
	for queue, ids := range queues {
		if err := f.script.Run(ctx, f.client, []string{"asynq:{" + queue + "}:pending"}, ids...).Err(); err != nil {
			return fmt.Errorf("move woken tasks to the head of queue %s: %w", queue, err)
		}
	}
	return nil
}
