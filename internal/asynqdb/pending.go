package asynqdb

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/hibiken/asynq"
)

// Pending is a task that is delivered next, or that a worker holds. Task is nil where asynq's message is unreadable.
type Pending struct {
	ID   string
	Task *asynq.Task
}

// pendingScript reads the head of the pending list of one queue, and the active tasks.
//
//	KEYS[1] -> asynq's pending list.
//	KEYS[2] -> exists while the queue is paused.
//	KEYS[3] -> asynq's list of active tasks: a task that is delivered is pushed on its left.
//	KEYS[4] -> the process that takes the backlog, and until when in milliseconds.
//	ARGV[1] -> prefix of asynq's task keys.
//	ARGV[2] -> largest number of tasks to read.
//	ARGV[3] -> smallest length of the list.
//	ARGV[4] -> bytes of messages after which no further task is read.
//	ARGV[5] -> largest number of woken tasks to skip.
//	ARGV[6] -> largest number of active tasks to read: the newest ones.
//	ARGV[7] -> this process.
//	ARGV[8] -> for how many milliseconds it takes the backlog.
//
// Output: the number of active tasks, or -1 if another process takes the backlog. Then, for each active and each
// pending task, in the order of delivery: its ID and asynq's message.
const pendingScript = luaWoken + `
local time = redis.call("TIME")
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local owner, till = string.match(redis.call("GET", KEYS[4]) or "", "^(%S+) (%d+)$")
if redis.call("EXISTS", KEYS[2]) == 1 or redis.call("LLEN", KEYS[1]) < tonumber(ARGV[3]) then
	if owner == ARGV[7] then
		redis.call("DEL", KEYS[4])
	end
	return {"0"}
end
if owner and owner ~= ARGV[7] and tonumber(till) > now then
	return {"-1"}
end
redis.call("SET", KEYS[4], ARGV[7] .. " " .. string.format("%.0f", now + tonumber(ARGV[8])), "PX", ARGV[8])

-- read reads tasks in order of a state, and returns their IDs and messages.
local function read(ids, from, to, step, state)
	local found, left = {}, tonumber(ARGV[4])
	for i = from, to, step do
		if left <= 0 then
			break
		end
		local t = redis.call("HMGET", ARGV[1] .. ids[i], "state", "msg", "group", "` + fieldLeft + `",
			"` + fieldWoken + `", "pending_since")
		if t[1] == state and t[2] and (not t[3] or t[3] == "") and not t[4] and not woken(t[5], t[6]) then
			found[#found + 1] = {ids[i], t[2]}
			left = left - #t[2]
		end
	end
	return found
end

local newest = redis.call("LRANGE", KEYS[3], 0, tonumber(ARGV[6]) - 1)
local active = read(newest, 1, #newest, 1, "active")
local n = wokenBefore(tonumber(ARGV[5]))
local next = redis.call("LRANGE", KEYS[1], -n - tonumber(ARGV[2]), -n - 1)
local pending = read(next, #next, 1, -1, "pending")
local answer = {tostring(#active)}
for i = #active, 1, -1 do
	answer[#answer + 1] = active[i][1]
	answer[#answer + 1] = active[i][2]
end
for i = 1, #pending do
	answer[#answer + 1] = pending[i][1]
	answer[#answer + 1] = pending[i][2]
end
return answer
`

// pendingBytes is about how much of messages one script reads of pending tasks, and of active ones: Redis serves no
// other client meanwhile.
const pendingBytes = 4 << 20

// activeMost is how many active tasks one script looks at: the newest ones, whose buckets may not have answered yet.
const activeMost = 1024

// TakesFor is for how long a process takes the backlog of a queue after a call of Pending.
const TakesFor = 250 * time.Millisecond

// ErrTakenElsewhere is returned by Pending while another process takes the backlog.
var ErrTakenElsewhere = errors.New("another process takes the backlog")

// Pending reads tasks from the head of a queue's pending list, in the order of delivery; most is their largest
// number. It returns none if the queue is paused, or if fewer than from tasks are pending. It leaves out woken tasks,
// tasks of a group, and tasks that Take left. Active are the tasks that workers held at that moment, in the order of
// their delivery, without tasks that Take left.
//
// One process at a time takes the backlog of a queue. It does so until few tasks are left, or until TakesFor has
// passed since its last call of Pending. For other processes, the error is ErrTakenElsewhere.
func (d *DB) Pending(ctx context.Context, queue string, most, from int) (active, pending []Pending, err error) {
	k := keysOf(queue)
	args := []any{k.tasks(), most, from, pendingBytes, passMost, activeMost, d.process, TakesFor.Milliseconds()}
	in := []string{k.pending(), k.paused(), k.active(), takerKey(queue)}
	answer, err := d.pending.Run(ctx, d.client, in, args...).StringSlice()
	held := 0
	if err == nil {
		held, err = strconv.Atoi(answer[0])
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read pending tasks of queue %s: %w", queue, err)
	}
	if held < 0 {
		return nil, nil, ErrTakenElsewhere
	}
	all := make([]Pending, 0, len(answer)/2)
	for i := 1; i+1 < len(answer); i += 2 {
		task, _ := DecodeMessage([]byte(answer[i+1])) // the worker that receives the task reports the fault
		all = append(all, Pending{ID: answer[i], Task: task})
	}
	return all[:held], all[held:], nil
}

// takerKey shares the slot of the queue in a Redis cluster.
func takerKey(queue string) string { return "headway:taker:{" + queue + "}" }
