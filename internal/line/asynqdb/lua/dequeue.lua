-- dequeue delivers tasks of one queue, as asynq's script delivers one. A server that has found the end of the list, and
-- can run more, is idle from now on: the next task wakes it.
--
--	KEYS[1] -> asynq's pending list.
--	KEYS[2] -> exists while the queue is paused.
--	KEYS[3] -> asynq's list of active tasks.
--	KEYS[4] -> asynq's set of leases.
--	ARGV[1] -> prefix of asynq's task keys.
--	ARGV[2] -> the lease.
--	ARGV[3] -> largest number of tasks.
--	ARGV[4] -> part of the pending list that one server takes at once, apart from its first task.
--	ARGV[5] -> ID of the server.
--	ARGV[6] -> how many tasks the server can run.
--
-- Output: "1" if nothing is left for the server, else "0"; then for each task its ID, asynq's message, and "1" if it was
-- ever woken, else "0".
local length, found = redis.call("LLEN", KEYS[1]), {"0"}
if redis.call("EXISTS", KEYS[2]) == 1 then
	redis.call("SREM", idleOf(KEYS[1]), ARGV[5])
	return {"1"}
end
local taken = math.min(length, tonumber(ARGV[3]), 1 + math.floor(length / tonumber(ARGV[4])))
for _ = 1, taken do
	local id = redis.call("RPOPLPUSH", KEYS[1], KEYS[3])
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
if taken == length and taken < tonumber(ARGV[6]) then
	found[1] = "1"
	if redis.call("SADD", idleOf(KEYS[1]), ARGV[5]) == 1 then
		redis.call("PEXPIRE", idleOf(KEYS[1]), 3600000)
	end
end
return found
