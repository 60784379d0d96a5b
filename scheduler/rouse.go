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

// rouseScript moves tasks of one queue from where asynq has them wait to the head of what is delivered next: urgent ones before all, the others behind those that were woken before
// and not delivered yet, whose time came sooner.
//
//	KEYS[1] -> asynq's list of pending tasks: new ones are pushed on its left, workers take from its right
//	KEYS[2] -> asynq's set of scheduled tasks
//	KEYS[3] -> asynq's set of tasks that wait for a retry
//	ARGV[1] -> where the keys of the queue's tasks begin
//	ARGV[2] -> how many of the tasks are urgent
//	ARGV[3] -> how many that were woken before are looked at at most
//	then task IDs: the urgent ones, then the others, in the order in which they are to be delivered
//
// Output: for each task "woken"; "away", it is on its way or at its end; "active", its worker has not put it back yet; or "unknown".
const rouseScript = `
local time = redis.call("TIME")
local since = string.format("%d%06d000", tonumber(time[1]), tonumber(time[2]))
local sets, answer = {scheduled = KEYS[2], retry = KEYS[3]}, {}
` + countWoken + `
local urgent, others = {}, {}
for i = 4, #ARGV do
	local key = ARGV[1] .. ARGV[i]
	local state = redis.call("HGET", key, "state")
	local told = "unknown"
	if state == "active" then
		told = "active"
	elseif state == "pending" or state == "completed" then
		told = "away"
	elseif sets[state] and redis.call("ZREM", sets[state], ARGV[i]) == 1 then
		told = "woken"
		local to = i - 3 <= tonumber(ARGV[2]) and urgent or others
		to[#to + 1] = ARGV[i]
	end
	answer[i - 3] = told
end
local passed = {}
if #others > 0 then
	local n = before(tonumber(ARGV[3]))
	if n > 0 then
		passed = redis.call("LRANGE", KEYS[1], -n, -1)
		redis.call("LTRIM", KEYS[1], 0, -n - 1)
	end
end
for i = #others, 1, -1 do
	redis.call("RPUSH", KEYS[1], others[i])
end
for i = 1, #passed do
	redis.call("RPUSH", KEYS[1], passed[i])
end
for i = #urgent, 1, -1 do
	redis.call("RPUSH", KEYS[1], urgent[i])
end
for _, ids in ipairs({urgent, others}) do
	for _, id in ipairs(ids) do
		redis.call("HSET", ARGV[1] .. id, "state", "pending", "pending_since", since, "` + fieldWoken + `", 1)
	end
end
return answer
`

// countWoken is shared by the scripts about asynq's keys: KEYS[1] is the list of pending tasks, ARGV[1] is where the keys of tasks begin.
const countWoken = `
-- woken says whether the one that is delivered as the n-th from now was woken. Those stand side by side.
local function woken(n)
	local id = redis.call("LINDEX", KEYS[1], -n)
	return id and redis.call("HEXISTS", ARGV[1] .. id, "` + fieldWoken + `") == 1
end

-- before is how many of them there are; most, where there are more.
local function before(most)
	if not woken(1) then
		return 0
	end
	local is, isnt = 1, 2
	while isnt <= most and woken(isnt) do
		is, isnt = isnt, 2 * isnt
	end
	isnt = math.min(isnt, most + 1)
	while isnt - is > 1 do
		local between = math.floor((is + isnt) / 2)
		if woken(between) then is = between else isnt = between end
	end
	return is
end
`

// passMost is how many tasks that were woken before the others are put behind at most: more than a fleet has due at once but after an outage, and few enough for Redis to move in a
// millisecond.
const passMost = 1024

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

// wake has asynq deliver the tasks next, the first of which is due first, and tells what became of each.
func (r rouser) wake(ctx context.Context, tasks dueTasks) (notes []attended) {
	queues := map[string]dueTasks{}
	for _, t := range tasks.urgent {
		of := queues[t.Queue]
		of.urgent = append(of.urgent, t)
		queues[t.Queue] = of
	}
	for _, t := range tasks.ordinary {
		of := queues[t.Queue]
		of.ordinary = append(of.ordinary, t)
		queues[t.Queue] = of
	}
	for queue, of := range queues {
		told, err := r.rouse(ctx, queue, of)
		for i, t := range of.all() {
			notes = append(notes, attended{task: t, again: r.follow(ctx, t, told[i], err)})
		}
	}
	return notes
}

// keysOf is where asynq's keys of a queue begin.
func keysOf(queue string) string { return "asynq:{" + queue + "}:" }

// rouse runs the script for tasks of one queue. There is an answer for each, with an error an empty one.
func (r rouser) rouse(ctx context.Context, queue string, tasks dueTasks) ([]string, error) {
	prefix, all := keysOf(queue), tasks.all()
	args := []any{prefix + "t:", len(tasks.urgent), passMost}
	for _, t := range all {
		args = append(args, t.ID)
	}
	told, err := r.script.Run(ctx, r.client, []string{prefix + "pending", prefix + "scheduled", prefix + "retry"}, args...).StringSlice()
	if err == nil && len(told) != len(all) {
		err = fmt.Errorf("%d answers for %d tasks", len(told), len(all))
	}
	if err != nil {
		return make([]string, len(all)), fmt.Errorf("wake tasks of queue %s: %w", queue, err)
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
