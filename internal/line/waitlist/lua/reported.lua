-- reported stores what buckets have answered, and removes tasks that began.
local function reported()
	for _, a in ipairs(arg.answers or {}) do
		local bucket, meta, version = a.bucket, root .. "meta:" .. a.bucket, tonumber(a.version)
		local since, g, v, failed = unpack(redis.call("HMGET", meta, "since", "generation", "version", "failed_until"))
		local generation, look = tonumber(a.generation), a.sooner
		g, v = number(g), number(v)
		if not since and (a.sooner or a.joins) then
			since = whole(now)
			redis.call("HSET", meta, "since", since)
		end
		if since and idle(bucket) and redis.call("PTTL", meta) < 60000 then
			redis.call("PEXPIRE", meta, 60000)
		end
		if since and (generation > g or generation == g and version >= v) then
			redis.call("HSET", meta, "generation", whole(generation), "version", whole(version), "state", a.state,
				"offset", whole(tonumber(a.store) - now))
			if failed then
				redis.call("HDEL", meta, "failed_until", "faulty_since", "away_since")
				redis.call("ZREM", KEYS[2], bucket)
				look = true
			end
		end
		if since and look and not idle(bucket) then
			forward(bucket)
		end
	end
	local left = {}
	for _, task in ipairs(arg.begun or {}) do
		local r = withdraw(task)
		if r then
			left[r.bucket] = true
		end
		redis.call("DEL", root .. "task:" .. task)
	end
	for bucket in pairs(left) do
		tidy(bucket)
	end
end
