-- join puts tasks into the lists of their buckets. A task for which its bucket has answered when it may start, and
-- that waits alone, needs no look before: it is promoted at once, or a look is planned for then.
--
--	ARGV[2...] -> see reported
--	then for each task: task; bucket; flow; cost (negative: before all waiting tasks); reserved; urgent ("1" or "0");
--	tokens (JSON); info; how long to keep the record in milliseconds; class; cost in the class; in how many
--	microseconds it may start, or empty
--
-- Output: the number of promoted tasks; these tasks; for each bucket of the tasks: its name; the number of sums of
-- tokens; the sums.
local before, first, left, promoted = soonest(), {}, {}, {}
local from = reported(2)
for i = from, #ARGV, 12 do
	local task, bucket, class, turn = ARGV[i], ARGV[i + 1], ARGV[i + 9], tonumber(ARGV[i + 10])
	local record, inside, flow, cost = root .. "task:" .. task, "in:" .. bucket, ARGV[i + 2], tonumber(ARGV[i + 3])
	local queue, id = split(task)
	local old = withdraw(task)
	if old and old ~= bucket then
		left[old] = true
	end

	local later = redis.call("ZSCORE", root .. "timers", "a" .. task)
	local tag, _, of, given, kept = place(redis.call("HGET", record, inside))
	if tag then
		turn, class = given, kept
	end
	local epoch, inner = open(bucket, class)
	if tag and of ~= epoch then
		tag, turn = inner, 0
	elseif not tag and cost < 0 then
		tag, turn = ahead(inner), 0
	elseif not tag then
		tag = later and 0 or behind(bucket, class, inner, flow, cost)
	end

	local lane = with(queue, class)
	redis.call("HSET", record, "bucket", bucket, "urgent", ARGV[i + 5], "tokens", ARGV[i + 6], "info", ARGV[i + 7],
		"flow", flow, inside, placed(epoch, ARGV[i + 4], tag, turn, class),
		unpack(queue == callers and {"given", ARGV[i + 3]} or later and {"later", ARGV[i + 3]} or {}))
	redis.call("PEXPIRE", record, ARGV[i + 8])
	local ready = tonumber(ARGV[i + 11])
	local alone = ready and redis.call("EXISTS", root .. "queues:" .. bucket) == 0
	if not later then -- else ring enlists it when its timer is due
		enlist(bucket, lane, id, tag)
		charge(bucket, ARGV[i + 6], flow, 1)
	end
	if alone and not later then
		if ready <= 0 then
			advance(bucket, {task}, promoted)
			ready = 5000000 -- until the task has to have begun
		end
		forward(bucket, ready)
	elseif redis.call("ZRANK", listOf(bucket, lane), id) == 0 or not redis.call("ZSCORE", KEYS[1], bucket) then
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
local answer, named = {tostring(#promoted)}, {}
addAll(answer, promoted)
for i = from, #ARGV, 12 do
	local bucket = ARGV[i + 1]
	if not named[bucket] then
		named[bucket] = true
		add(answer, bucket)
		addPairs(answer, redis.call("HGETALL", root .. "sums:" .. bucket))
	end
end
return answer
