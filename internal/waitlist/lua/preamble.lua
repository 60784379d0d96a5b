-- The keys, below root. BUCKET, FLOW and CLASS are any bytes. TASK is Task.String. QUEUE is the escaped queue of a
-- task. A LANE is a queue and a class: QUEUE, or QUEUE\0CLASS if the class has a name.
--
--	index              sorted set: buckets with waiting or promoted tasks, by the time of the next look.
--	failed             sorted set: buckets whose store did not answer, by the end of their pause.
--	timers             sorted set: see timers.go.
--	dispatcher         hash: id, until (the end of the duty), now (of the last look), retry (Duty.Retry).
--	queues:BUCKET      set: lanes with waiting tasks in the bucket.
--	list:BUCKET\0LANE  sorted set: ids of waiting tasks, by tag. A look skips a paused queue.
--	promoted:BUCKET    sorted set: promoted tasks, by the time of promotion.
--	meta:BUCKET        hash: epoch (when the hash was created); generation, version, state, offset (from the last
--	                   answer); failed_until; faulty_since and away_since (the first failure of the bucket alone, or of
--	                   its store, since the last answer); inner:CLASS (the largest promoted tag); outer:CLASS (the end of
--	                   the last turn of the class); virtual (the latest start of a turn).
--	flows:BUCKET       sorted set: flows by their ends (tags), without flows that end before inner:CLASS. A class
--	                   with a name has flows:BUCKET\0CLASS.
--	waiting:BUCKET     sorted set: named flows, by the number of their waiting and promoted tasks.
--	sums:BUCKET        hash: the charges of waiting and promoted tasks, by meter.
--	task:TASK          hash: bucket (that it is in); tokens (JSON); urgent; flow; info; given (for callers: the cost in
--	                   the flow); later (the same for a task with a timer, which gets its tag when that is due); for
--	                   each bucket in which it has a tag in:BUCKET, which is "epoch reserved tag cost class". The cost
--	                   is the turn of the class, or zero after the first promotion.
--
-- and the channel "wake": a message is the time in microseconds until a new, earlier look.
--
-- All times are whole microseconds of Redis's clock. Scores and Lua's numbers are float64, which holds such times
-- exactly until the year 2255. A tag is a float64 too, so it is written as text with 17 digits. A tag of another
-- epoch cannot be compared: its task has waited longest and becomes the first.

-- preamble is shared by all scripts. KEYS are index, failed and dispatcher; ARGV[1] is root.
--
-- What something else than these scripts has left in a key concerns its bucket or its task alone. A key of another
-- type counts as lost: the script fails, and runs again when mend has deleted it. A text that is no number counts as
-- zero, and a record that can't be read as expired: asynq's net delivers the task.
local root = ARGV[1]

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
local function listOf(bucket, lane) return root .. "list:" .. bucket .. "\0" .. lane end

-- with adds the name of the class to a name, if it has one; parts is the inverse.
local function with(name, class) return class == "" and name or name .. "\0" .. class end
local function parts(lane)
	local zero = string.find(lane, "\0", 1, true)
	if not zero then
		return lane, ""
	end
	return string.sub(lane, 1, zero - 1), string.sub(lane, zero + 1)
end

-- add adds texts to an answer. addPairs adds the number of pairs in a list, then their texts.
local function addAll(answer, texts)
	for _, text in ipairs(texts) do
		answer[#answer + 1] = text
	end
end
local function add(answer, ...) addAll(answer, {...}) end
local function addPairs(answer, list)
	add(answer, tostring(#list / 2))
	addAll(answer, list)
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

local function idle(bucket)
	return redis.call("EXISTS", root .. "queues:" .. bucket) + redis.call("EXISTS", root .. "promoted:" .. bucket) == 0
end

-- tidy ends the planning for an idle bucket, and returns whether it is idle. Later tasks get larger tags than all
-- earlier ones.
local function tidy(bucket)
	if not idle(bucket) then
		return false
	end
	local meta = root .. "meta:" .. bucket
	for _, field in ipairs(redis.call("HKEYS", meta)) do
		if string.sub(field, 1, 6) == "inner:" then
			local flows = root .. "flows:" .. with(bucket, string.sub(field, 7))
			local last = redis.call("ZRANGE", flows, -1, -1, "WITHSCORES")
			if #last > 0 and tonumber(last[2]) > number(redis.call("HGET", meta, field)) then
				redis.call("HSET", meta, field, exact(tonumber(last[2])))
			end
			redis.call("DEL", flows)
		elseif string.sub(field, 1, 6) == "outer:" then
			redis.call("HDEL", meta, field)
		end
	end
	redis.call("HDEL", meta, "virtual")
	redis.call("DEL", root .. "sums:" .. bucket, root .. "waiting:" .. bucket)
	redis.call("ZREM", KEYS[1], bucket)
	redis.call("PEXPIRE", meta, 600000)
	return true
end

-- eachMeter calls visit with each meter of tokens and its number.
local function eachMeter(tokens, visit)
	local read, numbers = pcall(cjson.decode, tokens)
	for meter, n in pairs(read and type(numbers) == "table" and numbers or {}) do
		if type(meter) == "string" and type(n) == "number" and n >= 0 and n <= 1e15 then
			visit(meter, n)
		end
	end
end

-- charge adds a task and its tokens, times sign, to the sums of the bucket.
local function charge(bucket, tokens, flow, sign)
	eachMeter(tokens, function(meter, n)
		local sum = redis.pcall("HINCRBYFLOAT", root .. "sums:" .. bucket, meter, exact(sign * n))
		if type(sum) == "table" and sum.err then -- the sum is no number
			redis.call("HSET", root .. "sums:" .. bucket, meter, exact(sign * n))
		end
	end)
	if flow and tonumber(redis.call("ZINCRBY", root .. "waiting:" .. bucket, sign, flow)) <= 0 then
		redis.call("ZREM", root .. "waiting:" .. bucket, flow)
	end
end

local function enlist(bucket, lane, id, tag)
	redis.call("ZADD", listOf(bucket, lane), exact(tag), id)
	redis.call("SADD", root .. "queues:" .. bucket, lane)
end

-- unlist takes a task out of a list and returns whether it was there.
local function unlist(bucket, lane, id)
	if not lane then
		return false
	end
	local list = listOf(bucket, lane)
	if redis.call("ZREM", list, id) == 0 then
		return false
	end
	if redis.call("EXISTS", list) == 0 then
		redis.call("SREM", root .. "queues:" .. bucket, lane)
	end
	return true
end

-- place parses the field in:BUCKET of a task: its tag, whether it is reserved ("1" or "0"), the epoch of
-- the tag, the cost of its turn, and its class. It returns nil for a malformed text.
local function place(text)
	local epoch, reserved, tag, cost, class = string.match(text or "", "^(%d+) ([01]) (%S+) (%S+) ?(.*)$")
	tag, cost = tonumber(tag), tonumber(cost)
	if not tag or not cost or tag ~= tag or cost ~= cost then
		return nil
	end
	return tag, reserved, epoch, cost, class
end

local function placed(epoch, reserved, tag, cost, class)
	local text = epoch .. " " .. reserved .. " " .. exact(tag) .. " " .. string.format("%.6e", cost)
	return class == "" and text or text .. " " .. class
end

-- laneIn returns the lane of the task in the bucket, nil if it has no tag there; then the results of place.
local function laneIn(bucket, task)
	local tag, reserved, epoch, cost, class = place(redis.call("HGET", root .. "task:" .. task, "in:" .. bucket))
	if not tag then
		return nil
	end
	return with(split(task), class), tag, reserved, epoch, cost, class
end

-- withdraw removes a task from the list or the promoted tasks of its bucket, and returns the bucket, nil if it has
-- none.
local function withdraw(task)
	local bucket, tokens, flow = unpack(redis.call("HMGET", root .. "task:" .. task, "bucket", "tokens", "flow"))
	if not bucket then
		return nil
	end
	local _, id = split(task)
	if unlist(bucket, laneIn(bucket, task), id) or redis.call("ZREM", root .. "promoted:" .. bucket, task) == 1 then
		charge(bucket, tokens, flow, -1)
	end
	return bucket
end

-- open prepares a class of a bucket for tasks with tags. It returns the epoch and the largest promoted tag.
local function open(bucket, class)
	local meta = root .. "meta:" .. bucket
	local epoch, inner = unpack(redis.call("HMGET", meta, "epoch", "inner:" .. class))
	if not epoch or not inner then
		epoch, inner = epoch or whole(now), inner or "0"
		redis.call("HSET", meta, "epoch", epoch, "inner:" .. class, inner)
	end
	redis.call("PERSIST", meta)
	return epoch, number(inner)
end

-- ahead returns a tag before all tags that behind gives. Of two of its own, the earlier one is the smaller: the clock in
-- seconds is less than 4e9 until the year 2096.
local function ahead(inner) return inner - 4000000000 + now / 1000000 end

-- behind returns a new tag at the end of a flow, and moves that end on by the cost.
local function behind(bucket, class, inner, flow, cost)
	local flows = root .. "flows:" .. with(bucket, class)
	local tag = math.max(inner, tonumber(redis.call("ZSCORE", flows, flow) or 0))
	redis.call("ZADD", flows, exact(tag + tonumber(cost)), flow)
	return tag
end

-- arrived adds the record of a task to the answer: "0" new, "1" waiting, "2" promoted; bucket; info; then the number of
-- buckets in which it has a tag, and for each its name and whether it is reserved. It returns the state.
local function arrived(task, answer)
	local bucket, info, held, state = "", "", {}, "0"
	local record = redis.call("HGETALL", root .. "task:" .. task)
	for i = 1, #record, 2 do
		local field, value = record[i], record[i + 1]
		if field == "bucket" then
			bucket = value
			local _, id = split(task)
			local lane = laneIn(bucket, task)
			local waits = lane and redis.call("ZSCORE", listOf(bucket, lane), id)
				or redis.call("ZSCORE", root .. "timers", "a" .. task)
			state = waits and "1" or "2"
		elseif field == "info" then
			info = value
		elseif string.sub(field, 1, 3) == "in:" then
			local _, reserved = place(value)
			add(held, string.sub(field, 4), reserved or "0")
		end
	end
	add(answer, state, bucket, info)
	addPairs(answer, held)
	return state
end

-- count is the number of waiting tasks in the bucket, without promoted ones.
local function count(bucket)
	local n = 0
	for _, lane in ipairs(redis.call("SMEMBERS", root .. "queues:" .. bucket)) do
		n = n + redis.call("ZCARD", listOf(bucket, lane))
	end
	return n
end
