package asynqdb

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// takeScript moves tasks of one queue from asynq's pending list to its scheduled set, and marks other tasks. It skips
// tasks that were delivered or woken meanwhile.
//
//	KEYS[1] -> asynq's pending list.
//	KEYS[2] -> asynq's scheduled set.
//	ARGV[1] -> prefix of asynq's task keys.
//	ARGV[2] -> after how many seconds asynq delivers the moved tasks.
//	ARGV[3] -> number of tasks to move.
//	then the IDs of the tasks to move, and of the tasks to mark.
//
// Output: the IDs of the moved tasks.
const takeScript = luaWoken + `
local at = tonumber(redis.call("TIME")[1]) + tonumber(ARGV[2])
local last, answer = 3 + tonumber(ARGV[3]), {}
for i = 4, #ARGV do
	local key = ARGV[1] .. ARGV[i]
	local t = redis.call("HMGET", key, "state", "` + fieldWoken + `", "pending_since")
	local pending = t[1] == "pending" and not woken(t[2], t[3])
	if i > last then
		if pending or t[1] == "active" then
			redis.call("HSET", key, "` + fieldLeft + `", 1)
		end
	elseif pending and redis.call("LREM", KEYS[1], -1, ARGV[i]) == 1 then
		redis.call("ZADD", KEYS[2], at, ARGV[i])
		redis.call("HSET", key, "state", "scheduled")
		redis.call("HDEL", key, "pending_since")
		answer[#answer + 1] = ARGV[i]
	end
end
return answer
`

// delayScript changes when asynq delivers scheduled tasks of one queue.
//
//	KEYS[1] -> asynq's scheduled set
//	ARGV[1] -> prefix of asynq's task keys
//	then for each task its ID and the second of its delivery
//
// Output: the IDs of tasks that do not exist.
const delayScript = `
local gone = {}
for i = 2, #ARGV, 2 do
	if redis.call("EXISTS", ARGV[1] .. ARGV[i]) == 0 then
		gone[#gone + 1] = ARGV[i]
	else
		redis.call("ZADD", KEYS[1], "XX", ARGV[i + 1], ARGV[i])
	end
end
return gone
`

// Take moves the wanted tasks from a queue's pending list to its scheduled set, and returns the IDs of the moved
// tasks. asynq delivers them after net, unless they are delayed or woken before. The tasks of left stay pending or
// active, and Pending does not return them again.
func (d *DB) Take(ctx context.Context, queue string, wanted, left []string, net time.Duration) ([]string, error) {
	if len(wanted)+len(left) == 0 {
		return nil, nil
	}
	k := keysOf(queue)
	args := []any{k.tasks(), int64(net.Seconds()), len(wanted)}
	for _, id := range slices.Concat(wanted, left) {
		args = append(args, id)
	}
	taken, err := d.take.Run(ctx, d.client, []string{k.pending(), k.scheduled()}, args...).StringSlice()
	if err != nil {
		return nil, fmt.Errorf("take tasks of queue %s: %w", queue, err)
	}
	return taken, nil
}

// Delay makes asynq deliver each task not before its time, and returns the IDs of tasks that do not exist. It leaves a
// task that is not scheduled.
func (d *DB) Delay(ctx context.Context, queue string, at map[string]time.Time) (gone []string, err error) {
	if len(at) == 0 {
		return nil, nil
	}
	k := keysOf(queue)
	args := []any{k.tasks()}
	for id, moment := range at {
		args = append(args, id, moment.Unix()+1) // asynq keeps whole seconds
	}
	if gone, err = d.delay.Run(ctx, d.client, []string{k.scheduled()}, args...).StringSlice(); err != nil {
		return nil, fmt.Errorf("delay tasks of queue %s: %w", queue, err)
	}
	return gone, nil
}
