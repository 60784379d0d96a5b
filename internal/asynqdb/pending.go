package asynqdb

import (
	"context"
	"fmt"

	"github.com/hibiken/asynq"
)

// Pending is a task at the head of asynq's pending list. Task is nil where asynq's message is unreadable.
type Pending struct {
	ID   string
	Task *asynq.Task
}

// pendingScript reads the head of the pending list of one queue.
//
//	KEYS[1] -> asynq's pending list
//	KEYS[2] -> exists while the queue is paused
//	ARGV[1] -> prefix of asynq's task keys
//	ARGV[2] -> largest number of tasks to read
//	ARGV[3] -> smallest length of the list
//	ARGV[4] -> bytes of messages after which no further task is read
//	ARGV[5] -> largest number of woken tasks to skip
//
// Output: for each task its ID and asynq's message, in the order of delivery.
const pendingScript = luaWoken + `
if redis.call("EXISTS", KEYS[2]) == 1 or redis.call("LLEN", KEYS[1]) < tonumber(ARGV[3]) then
	return {}
end
local n = wokenBefore(tonumber(ARGV[5]))
local ids, answer, left = redis.call("LRANGE", KEYS[1], -n - tonumber(ARGV[2]), -n - 1), {}, tonumber(ARGV[4])
for i = #ids, 1, -1 do
	if left <= 0 then
		break
	end
	local t = redis.call("HMGET", ARGV[1] .. ids[i], "state", "msg", "group", "` + fieldLeft + `",
		"` + fieldWoken + `", "pending_since")
	if t[1] == "pending" and t[2] and (not t[3] or t[3] == "") and not t[4] and not woken(t[5], t[6]) then
		answer[#answer + 1] = ids[i]
		answer[#answer + 1] = t[2]
		left = left - #t[2]
	end
end
return answer
`

// pendingBytes is about how much of messages one script reads: Redis serves no other client meanwhile.
const pendingBytes = 4 << 20

// Pending reads at most so many tasks from the head of a queue's pending list, in the order of delivery. It returns
// none where the queue is paused, or where fewer than from tasks are pending. It leaves out woken tasks, tasks of a
// group, and tasks that Take left.
func (d *DB) Pending(ctx context.Context, queue string, most, from int) ([]Pending, error) {
	k := keysOf(queue)
	args := []any{k.tasks(), most, from, pendingBytes, passMost}
	answer, err := d.pending.Run(ctx, d.client, []string{k.pending(), k.paused()}, args...).StringSlice()
	if err != nil {
		return nil, fmt.Errorf("read pending tasks of queue %s: %w", queue, err)
	}
	tasks := make([]Pending, 0, len(answer)/2)
	for i := 0; i+1 < len(answer); i += 2 {
		task, _ := DecodeMessage([]byte(answer[i+1])) // the worker that receives the task reports the fault
		tasks = append(tasks, Pending{ID: answer[i], Task: task})
	}
	return tasks, nil
}
