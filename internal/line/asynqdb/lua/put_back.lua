-- put_back moves delivered tasks that still have a known lease back to the head of asynq's pending list.
--
--	KEYS    -> as for dequeue.
--	ARGV[1] -> prefix of asynq's task keys.
--	ARGV[2] -> the known lease.
--	then the IDs, in the order of delivery.
--
-- Output: nothing.
local n = 0
for i = #ARGV, 3, -1 do
	local lease = redis.call("ZSCORE", KEYS[4], ARGV[i])
	if lease and tonumber(lease) == tonumber(ARGV[2]) and redis.call("LREM", KEYS[3], 1, ARGV[i]) == 1 then
		redis.call("ZREM", KEYS[4], ARGV[i])
		redis.call("RPUSH", KEYS[1], ARGV[i])
		redis.call("HSET", ARGV[1] .. ARGV[i], "state", "pending")
		n = n + 1
	end
end
announce(KEYS[1], n)
return 0
