-- dequeue delivers tasks of one queue, as asynq's script delivers one.
--
--	KEYS[1] -> asynq's pending list.
--	KEYS[2] -> exists while the queue is paused.
--	KEYS[3] -> asynq's list of active tasks.
--	KEYS[4] -> asynq's set of leases.
--	ARGV[1] -> prefix of asynq's task keys.
--	ARGV[2] -> the lease.
--	ARGV[3] -> largest number of tasks.
--	ARGV[4] -> part of the pending list that one server takes at once, apart from its first task.
--
-- Output: for each task its ID, asynq's message, and "1" if it was ever woken, else "0".
local length, found = redis.call("LLEN", KEYS[1]), {}
if length == 0 or redis.call("EXISTS", KEYS[2]) == 1 then -- an idle worker sends one command less than asynq's script
	return found
end
for _ = 1, math.min(tonumber(ARGV[3]), 1 + math.floor(length / tonumber(ARGV[4]))) do
	local id = redis.call("RPOPLPUSH", KEYS[1], KEYS[3])
	if not id then
		break
	end
	local key = ARGV[1] .. id
	redis.call("HSET", key, "state", "active")
	redis.call("HDEL", key, "pending_since")
	redis.call("ZADD", KEYS[4], ARGV[2], id)
	local message, waited = unpack(redis.call("HMGET", key, "msg", "headway_woken"))
	if message then
		found[#found + 1] = id
		found[#found + 1] = message
		found[#found + 1] = waited and "1" or "0"
	end
end
return found
