-- join puts tasks into the lists of their buckets.
--
--	ARGV[2...] -> for each task: task; bucket; flow; cost (negative: before all waiting tasks); reserved; urgent ("1"
--	              or "0"); tokens (JSON); info; how long to keep the record in milliseconds; class; cost in the class;
--	              when the task arrived (late if it was not delivered)
--
-- Output, for each bucket of the tasks: its name; the number of sums of tokens; the sums.
local before, first, left = soonest(), {}, {}
for i = 2, #ARGV, 12 do
	local task, bucket, class, turn = ARGV[i], ARGV[i + 1], ARGV[i + 9], tonumber(ARGV[i + 10])
	local record, inside, given = root .. "task:" .. task, "in:" .. bucket, "tag:" .. bucket
	local queue, id = split(task)
	local old = withdraw(task)
	if old and old ~= bucket then
		left[old] = true
	end

	local kept, early = unpack(redis.call("HMGET", record, inside, given))
	kept, early = place(kept) and kept, place(early) and early
	local tag, cost, of = nil, tonumber(ARGV[i + 3]), nil
	local known = kept or early and cost >= 0
	if known then
		local _
		tag, _, of, turn, class = place(kept or early)
	end
	local epoch, inner, busy = open(bucket, class)
	if known and of ~= epoch then
		tag, turn = inner, 0
	elseif not known and cost < 0 then
		tag, turn = front(busy, now - 1e11) or inner - 0.000001, 0 -- before all arrivals of the last day
	elseif not known then
		tag = behind(bucket, class, inner, ARGV[i + 2], cost)
	end
	if not kept and cost >= 0 then
		tag = front(busy, tonumber(ARGV[i + 11])) or tag
	end
	if early then
		redis.call("HDEL", record, given)
	end

	local lane = with(queue, class)
	redis.call("HSET", record, "bucket", bucket, "urgent", ARGV[i + 5], "tokens", ARGV[i + 6], "info", ARGV[i + 7],
		"flow", ARGV[i + 2], inside, placed(epoch, ARGV[i + 4], tag, turn, class),
		unpack(queue == callers and {"given", ARGV[i + 3]} or {}))
	redis.call("PEXPIRE", record, ARGV[i + 8])
	if not redis.call("ZSCORE", root .. "timers", "a" .. task) then -- else ring enlists it when its timer is due
		enlist(bucket, lane, id, tag)
		charge(bucket, ARGV[i + 6], ARGV[i + 2], 1)
	end
	if redis.call("ZRANK", listOf(bucket, lane), id) == 0 or not redis.call("ZSCORE", KEYS[1], bucket) then
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
local answer, named = {}, {}
for i = 3, #ARGV, 12 do
	local bucket = ARGV[i]
	if not named[bucket] then
		named[bucket] = true
		add(answer, bucket)
		addPairs(answer, redis.call("HGETALL", root .. "sums:" .. bucket))
	end
end
return answer
