-- join puts tasks into the lists of their buckets. A task for which its bucket has answered when it may start, and
-- that waits alone, needs no look before: it is promoted at once, or a look is planned for then.
local before, first, left, promoted, sums, summed = soonest(), {}, {}, {}, {}, {}
reported()
for _, e in ipairs(arg.entries) do
	local task, bucket, record, inside = e.task, e.bucket, root .. "task:" .. e.task, "in:" .. e.bucket
	local old = withdraw(task)
	if old and old.bucket ~= bucket then
		left[old.bucket] = true
		if old.back == 0 and not old.malformed then -- when it comes back there, it has waited longest
			redis.call("HSET", record, "in:" .. old.bucket, placed(old.reserved, old.tag, now))
		end
	end
	open(bucket)
	local r = {
		bucket = bucket, class = e.class, tenant = e.tenant, flow = e.flow, cost = e.cost, tokens = e.tokens,
	}
	r.queue, r.id = split(task)
	local later, known = redis.call("ZSCORE", root .. "timers", "a" .. task), nil
	known, r.tag, r.back = place(redis.call("HGET", record, inside))
	if not known and e.front then -- a task that had started, too, has had its turn
		r.tag, r.back = 0, now - 4000000000000000
	elseif not known then
		r.tag, r.back = later and 0 or behind(r), 0
	elseif r.back == 0 and not later then
		r.tag = math.min(r.tag, fresh(r)) -- tags may have begun again since
	end
	redis.call("HSET", record, "bucket", bucket, "class", e.class, "tenant", e.tenant, "flow", e.flow,
		"turn", exact(e.turn), "part", exact(e.part), "cost", exact(e.cost), "tokens", e.tokens,
		"urgent", e.urgent and "1" or "0", "info", e.info, inside, placed(e.reserved and "1" or "0", r.tag, r.back))
	redis.call("PEXPIRE", record, e.keep)
	local alone = e.ready and redis.call("EXISTS", root .. "parts:" .. bucket) == 0
	if later then -- ring enlists it when its timer is due
		redis.call("HSET", record, "later", "1")
	else
		enlist(r)
		charge(r, 1)
	end
	if alone and not later then
		if e.ready <= 0 then
			advance(bucket, {task}, promoted)
		end
		forward(bucket, e.ready > 0 and e.ready or arg.begin)
	elseif redis.call("ZRANK", listOf(r), r.id) == 0 or not redis.call("ZSCORE", KEYS[1], bucket) then
		first[bucket] = true
	end
end
for bucket in pairs(left) do
	tidy(bucket)
end
for bucket in pairs(first) do
	if not tidy(bucket) then -- a later entry may have moved the task
		forward(bucket)
	end
end
wake(before)
for _, e in ipairs(arg.entries) do
	if not summed[e.bucket] then
		summed[e.bucket] = true
		sums[#sums + 1] = {bucket = e.bucket, sums = some(redis.call("HGETALL", root .. "sums:" .. e.bucket))}
	end
end
return cjson.encode({promoted = some(promoted), sums = some(sums)})
