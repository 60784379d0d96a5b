-- The keys, below root. BUCKET, FLOW, CLASS and TENANT are texts. TASK is Task.String. QUEUE is the escaped queue of a
-- task. A comma stands for the byte zero. A PART is QUEUE,CLASS for tasks that wait for their turn, and QUEUE for tasks
-- that come back: these have had their turn.
--
--	index              sorted set: buckets with waiting or promoted tasks, by the time of the next look.
--	failed             sorted set: buckets whose store did not answer, by the end of their pause.
--	timers             sorted set: see timers.go.
--	dispatcher         hash: id, until (the end of the duty), now (of the last look).
--	parts:BUCKET       hash: the number of waiting tasks of each part. A look skips a paused queue.
--	list:BUCKET,QUEUE,CLASS,TENANT
--	                   sorted set: ids of waiting tasks, by tag.
--	list:BUCKET,QUEUE  sorted set: ids of tasks that came back, by when they were promoted first.
--	ring:BUCKET,QUEUE,CLASS
--	                   sorted set: tenants with waiting tasks, by where their next turns begin.
--	turns:BUCKET,CLASS sorted set: tenants by the ends of their last turns, without ends that lie behind.
--	flows:BUCKET,CLASS,TENANT
--	                   sorted set: flows by their ends (tags), without ends that lie behind.
--	tags:BUCKET        hash: the largest promoted tag of each CLASS,TENANT.
--	promoted:BUCKET    sorted set: promoted tasks, by the time of promotion.
--	meta:BUCKET        hash: since (when the hash was created); generation, version, state, offset (from the last
--	                   answer); failed_until; faulty_since and away_since (the first failure of the bucket alone, or of
--	                   its store, since the last answer); turn:CLASS (the end of the last turn of the class); virtual
--	                   (the latest beginning of such a turn); virtual:CLASS (the same of the turns of its tenants).
--	waiting:BUCKET     sorted set: FLOW or TENANT,FLOW by the number of waiting and promoted tasks.
--	sums:BUCKET        hash: the charges of waiting and promoted tasks, by meter.
--	task:TASK          hash: bucket (that it is in); class, tenant and flow; turn, part and cost (how far it moves the
--	                   ends of these three); tokens (JSON); urgent; info; later (it gets its tag when its timer is due);
--	                   for each bucket in which it has a place in:BUCKET, which is "RESERVED TAG BACK". BACK is when it
--	                   was promoted first, or zero.
--
-- and the channel "wake": a message is the time in microseconds until a new, earlier look.
--
-- All times are whole microseconds of Redis's clock. Scores and Lua's numbers are float64, which holds such times
-- exactly until the year 2255. A tag is a float64 too. cjson would round both, so they are written as text.

-- preamble is shared by all scripts. KEYS are index, failed and dispatcher; ARGV[1] is root. ARGV[2] is JSON: an object
-- of arguments, see callers of run in Go. An answer is JSON too. A list that would be empty is left out.
--
-- What something else than these scripts has left in a key concerns its bucket or its task alone. A key of another
-- type counts as lost: the script fails, and if it is no reading one, it runs again when mend has deleted the key. A
-- text that is no number counts as zero, and a record that can't be read as expired: asynq's net delivers the task.
local root, arg = ARGV[1], cjson.decode(ARGV[2])

-- number is what a text stands for, zero where that is no number of microseconds or no tag.
local function number(text)
	local n = tonumber(text)
	return n and n >= -9007199254740992 and n <= 9007199254740992 and n or 0
end

local callers = "headway:callers" -- QueueCallers

local time = redis.call("TIME")
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])

local function whole(n) return string.format("%.0f", n) end
local function exact(n) return string.format("%.17g", n) end

-- some is a list for an answer: nil if it is empty.
local function some(list) return #list > 0 and list or nil end

-- under is the name of what a class, or a tenant of it, has in a bucket.
local function under(kind, bucket, ...) return root .. kind .. ":" .. table.concat({bucket, ...}, "\0") end

-- parts is what stands before and behind a byte of zero: of a part the queue and the class. The class is nil for tasks
-- that come back.
local function parts(part)
	local zero = string.find(part, "\0", 1, true)
	if not zero then
		return part
	end
	return string.sub(part, 1, zero - 1), string.sub(part, zero + 1)
end

local function split(task)
	local slash = string.find(task, "/", 1, true) or 0 -- zero for what is no task
	return string.sub(task, 1, slash - 1), string.sub(task, slash + 1)
end

-- nextLook and nextTimer are the times of the next look and the next timer, nil if none is planned. soonest is the
-- earlier one.
local function nextLook() return tonumber(redis.call("ZRANGE", KEYS[1], 0, 0, "WITHSCORES")[2]) end
local function nextTimer() return tonumber(redis.call("ZRANGE", root .. "timers", 0, 0, "WITHSCORES")[2]) end
local function soonest()
	local look, timer = nextLook(), nextTimer()
	return look and timer and math.min(look, timer) or look or timer
end

-- wake publishes when the next look is due if that is earlier than before. If Redis refuses to publish, the dispatcher
-- sees the change at its next planned look.
local function wake(before)
	local after = soonest()
	if after and (not before or after < before) then
		redis.pcall("PUBLISH", root .. "wake", whole(math.max(0, after - now)))
	end
end

-- forward plans a look at the bucket for now, or in so many microseconds, or for the end of its failure.
local function forward(bucket, after)
	local at = math.max(now + (after or 0), number(redis.call("HGET", root .. "meta:" .. bucket, "failed_until")))
	local planned = redis.call("ZSCORE", KEYS[1], bucket)
	if not planned or tonumber(planned) > at then
		redis.call("ZADD", KEYS[1], whole(at), bucket)
	end
end

-- count is the number of tasks of a class that wait in the bucket, without promoted ones. No class, or an empty one,
-- means all.
local function count(bucket, class)
	local n, all = 0, redis.call("HGETALL", root .. "parts:" .. bucket)
	for i = 1, #all, 2 do
		if (class or "") == "" or select(2, parts(all[i])) == class then
			n = n + number(all[i + 1])
		end
	end
	return n
end

-- describe is what people see of a bucket.
local function describe(bucket)
	local state, offset, failed, faulty = unpack(
		redis.call("HMGET", root .. "meta:" .. bucket, "state", "offset", "failed_until", "faulty_since"))
	local waiting, flows = root .. "waiting:" .. bucket, {}
	local largest = redis.call("ZREVRANGE", waiting, 0, 10, "WITHSCORES")
	for i = 1, #largest, 2 do
		if largest[i] ~= "" and #flows < 10 then
			local tenant, flow = parts(largest[i])
			flows[#flows + 1] = {tenant = flow and tenant, flow = flow or tenant, tasks = number(largest[i + 1])}
		end
	end
	return {
		bucket = bucket, waiting = count(bucket), promoted = redis.call("ZCARD", root .. "promoted:" .. bucket),
		sums = some(redis.call("HGETALL", root .. "sums:" .. bucket)), state = state or nil, offset = whole(number(offset)),
		now = whole(now), next = whole(number(redis.call("ZSCORE", KEYS[1], bucket))), failed_until = whole(number(failed)),
		faulty = faulty and true or false, flows = some(flows), parts = some(redis.call("HGETALL", root .. "parts:" .. bucket)),
		flow_count = redis.call("ZCARD", waiting) - (redis.call("ZSCORE", waiting, "") and 1 or 0),
	}
end
