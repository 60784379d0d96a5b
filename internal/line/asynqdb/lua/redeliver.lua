-- redeliver returns a task that was delivered with a known lease, and gives it a new lease.
--
--	KEYS[1] -> asynq's set of leases
--	ARGV[1] -> prefix of asynq's task keys
--	ARGV[2] -> the known lease
--	ARGV[3] -> the new lease
--
-- Output: as of dequeue, for one task; empty where no task has the lease.
for _, id in ipairs(redis.call("ZRANGEBYSCORE", KEYS[1], ARGV[2], ARGV[2])) do
	local message, waited = unpack(redis.call("HMGET", ARGV[1] .. id, "msg", "headway_woken"))
	if message then
		redis.call("ZADD", KEYS[1], ARGV[3], id)
		return {id, message, waited and "1" or "0"}
	end
end
return {}
