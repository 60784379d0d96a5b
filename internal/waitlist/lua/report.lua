-- report stores answers of buckets, and removes tasks that began.
--
--	ARGV[2]    -> number of answers
--	ARGV[3...] -> for each: bucket; generation; version; the store's clock; state; "1" for a look now or "0"; "1" to
--	              store it in any case or "0"
--	then the tasks that began
--
-- Output: nothing.
local before, i = soonest(), 3
for _ = 1, tonumber(ARGV[2]) do
	local bucket, generation, version = ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
	local meta = root .. "meta:" .. bucket
	local epoch, g, v, failed = unpack(redis.call("HMGET", meta, "epoch", "generation", "version", "failed_until"))
	g, v = number(g), number(v)
	if not epoch and (ARGV[i + 5] == "1" or ARGV[i + 6] == "1") then
		epoch = whole(now)
		redis.call("HSET", meta, "epoch", epoch)
	end
	if epoch and idle(bucket) and redis.call("PTTL", meta) < 60000 then
		redis.call("PEXPIRE", meta, 60000)
	end
	if epoch then
		local look = ARGV[i + 5] == "1"
		if generation > g or generation == g and version >= v then
			redis.call("HSET", meta, "generation", ARGV[i + 1], "version", ARGV[i + 2], "state", ARGV[i + 4],
				"offset", whole(tonumber(ARGV[i + 3]) - now))
			if failed then
				redis.call("HDEL", meta, "failed_until", "faulty_since", "away_since")
				redis.call("ZREM", KEYS[2], bucket)
				look = true
			end
		end
		if look and not idle(bucket) then
			forward(bucket)
		end
	end
	i = i + 7
end
local left = {}
for j = i, #ARGV do
	local bucket = withdraw(ARGV[j])
	if bucket then
		left[bucket] = true
	end
	redis.call("DEL", root .. "task:" .. ARGV[j])
end
for bucket in pairs(left) do
	tidy(bucket)
end
wake(before)
return {}
