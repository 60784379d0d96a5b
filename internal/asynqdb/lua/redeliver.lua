-- redeliver returns a task that was delivered with a known lease, and gives it a new lease.
--
--	KEYS[1] -> asynq's set of leases
--	ARGV[1] -> prefix of asynq's task keys
--	ARGV[2] -> the known lease
--	ARGV[3] -> the new lease
--
-- Output: asynq's message; nil where no task has the lease.
for _, id in ipairs(redis.call("ZRANGEBYSCORE", KEYS[1], ARGV[2], ARGV[2])) do
	local message = redis.call("HGET", ARGV[1] .. id, "msg")
	if message then
		redis.call("ZADD", KEYS[1], ARGV[3], id)
		return message
	end
end
return nil
