-- take moves tasks of one queue from asynq's pending list to its scheduled set, and marks other tasks. It skips
-- tasks that were delivered or woken meanwhile.
--
--	KEYS[1] -> asynq's pending list.
--	KEYS[2] -> asynq's scheduled set.
--	ARGV[1] -> prefix of asynq's task keys.
--	ARGV[2] -> after how many seconds asynq delivers the moved tasks.
--	ARGV[3] -> number of tasks to move.
--	then the IDs of the tasks to move, and of the tasks to mark.
--
-- Output: the IDs of the moved tasks.
local at = tonumber(redis.call("TIME")[1]) + tonumber(ARGV[2])
local last, answer = 3 + tonumber(ARGV[3]), {}
for i = 4, #ARGV do
	local key = ARGV[1] .. ARGV[i]
	local t = redis.call("HMGET", key, "state", "headway_woken", "pending_since")
	local pending = t[1] == "pending" and not woken(t[2], t[3])
	if i > last then
		if pending or t[1] == "active" then
			redis.call("HSET", key, "headway_left", 1)
		end
	elseif pending and redis.call("LREM", KEYS[1], -1, ARGV[i]) == 1 then
		redis.call("ZADD", KEYS[2], at, ARGV[i])
		redis.call("HSET", key, "state", "scheduled")
		redis.call("HDEL", key, "pending_since")
		answer[#answer + 1] = ARGV[i]
	end
end
return answer
