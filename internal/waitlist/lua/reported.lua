-- reported stores what buckets have answered, and removes tasks that began. Its arguments begin at i:
--
--	number of answers
--	for each: bucket; generation; version; the store's clock; state; "1" for a look now or "0"; "1" to store it in any
--	case or "0"
--	number of tasks that began; these tasks
--
-- It returns the position of the next argument.
local function reported(i)
	local last = i + 7 * tonumber(ARGV[i])
	for a = i + 1, last, 7 do
		local bucket, generation, version = ARGV[a], tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2])
		local meta = root .. "meta:" .. bucket
		local epoch, g, v, failed = unpack(redis.call("HMGET", meta, "epoch", "generation", "version", "failed_until"))
		g, v = number(g), number(v)
		if not epoch and (ARGV[a + 5] == "1" or ARGV[a + 6] == "1") then
			epoch = whole(now)
			redis.call("HSET", meta, "epoch", epoch)
		end
		if epoch and idle(bucket) and redis.call("PTTL", meta) < 60000 then
			redis.call("PEXPIRE", meta, 60000)
		end
		if epoch then
			local look = ARGV[a + 5] == "1"
			if generation > g or generation == g and version >= v then
				redis.call("HSET", meta, "generation", ARGV[a + 1], "version", ARGV[a + 2], "state", ARGV[a + 4],
					"offset", whole(tonumber(ARGV[a + 3]) - now))
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
	end
	i = last + 1
	last = i + tonumber(ARGV[i])
	local left = {}
	for j = i + 1, last do
		local bucket = withdraw(ARGV[j])
		if bucket then
			left[bucket] = true
		end
		redis.call("DEL", root .. "task:" .. ARGV[j])
	end
	for bucket in pairs(left) do
		tidy(bucket)
	end
	return last + 1
end
