package scheduler

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// rouseScript moves tasks of one queue from where asynq has them wait to the head of what is delivered next.
//
//	KEYS[1] -> asynq's list of pending tasks: new ones are pushed on its left, workers take from its right
//	KEYS[2] -> asynq's set of scheduled tasks
//	KEYS[3] -> asynq's set of tasks that wait for a retry
//	ARGV[1] -> where the keys of the queue's tasks begin
//	then task IDs, the first of which is to be delivered first
//
// Output: for each task "woken"; "away", it is on its way or at its end; "active", its worker has not put it back yet; or "unknown".
const rouseScript = `
local time = redis.call("TIME")
local since = string.format("%d%06d000", tonumber(time[1]), tonumber(time[2]))
local sets, answer = {scheduled = KEYS[2], retry = KEYS[3]}, {}
for i = #ARGV, 2, -1 do
	local key = ARGV[1] .. ARGV[i]
	local state = redis.call("HGET", key, "state")
	local told = "unknown"
	if state == "active" then
		told = "active"
	elseif state == "pending" or state == "completed" then
		told = "away"
	elseif sets[state] and redis.call("ZREM", sets[state], ARGV[i]) == 1 then
		redis.call("RPUSH", KEYS[1], ARGV[i])
		redis.call("HSET", key, "state", "pending", "pending_since", since, "` + fieldWoken + `", 1)
		told = "woken"
	end
	answer[i - 1] = told
end
return answer
`

// rouser wakes many tasks in one round trip, and puts them to the head of their queue: asynq's Inspector.RunTask takes four for each, and puts
// them behind the whole backlog, where they would be late by what it takes to sort it. The keys are asynq's own and not part of its
// public interface (a test holds them to the version in go.mod). Whatever the script does not know, also a task that is not where
// it was looked for, is left to the Inspector.
//
// The script is one atomic change: a waker that is killed before it leaves the task where it waited, and the lease ends; after it the task
// is asynq's to deliver.
type rouser struct {
	client    redis.UniversalClient
	script    *redis.Script
	inspector *asynq.Inspector
}

func newRouser(client redis.UniversalClient, inspector *asynq.Inspector) rouser {
	return rouser{client: client, script: redis.NewScript(rouseScript), inspector: inspector}
}

// wake has asynq deliver the tasks next, the first of which is due first, and tells what became of each, in their order.
func (r rouser) wake(ctx context.Context, tasks []Task) []attended {
	notes := make([]attended, len(tasks))
	queues := map[string][]int{}
	for i, t := range tasks {
		notes[i].task = t
		queues[t.Queue] = append(queues[t.Queue], i)
	}
	for queue, at := range queues {
		ids := make([]string, len(at))
		for n, i := range at {
			ids[n] = tasks[i].ID
		}
		told, err := r.rouse(ctx, queue, ids)
		for n, i := range at {
			notes[i].again = r.follow(ctx, tasks[i], told[n], err)
		}
	}
	return notes
}

// rouse runs the script for tasks of one queue. There is an answer for each, with an error an empty one.
func (r rouser) rouse(ctx context.Context, queue string, ids []string) ([]string, error) {
	prefix := "asynq:{" + queue + "}:"
	args := []any{prefix + "t:"}
	for _, id := range ids {
		args = append(args, id)
	}
	told, err := r.script.Run(ctx, r.client, []string{prefix + "pending", prefix + "scheduled", prefix + "retry"}, args...).StringSlice()
	if err == nil && len(told) != len(ids) {
		err = fmt.Errorf("%d answers for %d tasks", len(told), len(ids))
	}
	if err != nil {
		return make([]string, len(ids)), fmt.Errorf("wake tasks of queue %s: %w", queue, err)
	}
	return told, nil
}

// follow is when the task is to be tried again after the script's answer, zero where nothing is left to do.
func (r rouser) follow(ctx context.Context, t Task, told string, err error) time.Duration {
	switch {
	case told == "woken", told == "away":
		return 0
	case told == "active":
		return activePause
	case ctx.Err() != nil: // asynq's inspector knows no context
		return lease
	}
	if _, answered := errors.AsType[redis.Error](err); err != nil && !answered { // Redis is away
		return lease
	}
	return r.run(t)
}

// run has the Inspector wake one task that the script did not know, and answers as follow does.
//
// RunTask alone would also run a task that an operator has archived, or one that is completed and only kept to be read.
func (r rouser) run(t Task) time.Duration {
	info, err := r.inspector.GetTaskInfo(t.Queue, t.ID)
	switch {
	case err != nil && gone(err):
		return 0
	case err != nil:
		return lease
	}
	switch info.State {
	case asynq.TaskStatePending, asynq.TaskStateCompleted:
		return 0
	case asynq.TaskStateArchived:
		if !onlyWaited(info) {
			return 0
		}
	case asynq.TaskStateActive:
		return activePause
	case asynq.TaskStateScheduled, asynq.TaskStateRetry, asynq.TaskStateAggregating:
	}
	if err = r.inspector.RunTask(t.Queue, t.ID); err != nil && !gone(err) {
		return activePause // somebody was faster, or Redis is away: the next look tells
	}
	return 0
}

// onlyWaited says whether it was asynq that archived the task, on its last attempt, although it only has to wait. Any other
// was archived by an operator, or has failed.
func onlyWaited(info *asynq.TaskInfo) bool {
	return info.Retried >= info.MaxRetry && strings.HasPrefix(info.LastErr, waitingText)
}

func gone(err error) bool {
	return errors.Is(err, asynq.ErrTaskNotFound) || errors.Is(err, asynq.ErrQueueNotFound)
}
