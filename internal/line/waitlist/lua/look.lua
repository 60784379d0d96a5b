-- look takes or renews the duty and returns the due buckets. It plans the next look at each of them for the end
-- of the lease. So any change after this look also changes the plan. The clock may run back by more than a second
-- after the last look: then every bucket is due, its last answer is deleted, and the duty is free.
local duty, ends, last = unpack(redis.call("HMGET", KEYS[3], "id", "until", "now"))
if last and now < number(last) - 1000000 then -- the clock ran back: plans and offsets are wrong
	ends = 0
	for _, bucket in ipairs(redis.call("ZRANGE", KEYS[1], 0, -1)) do
		redis.call("ZADD", KEYS[1], whole(now), bucket)
		redis.call("HDEL", root .. "meta:" .. bucket, "state", "generation", "version", "offset")
	end
end
if duty and duty ~= arg.id and number(ends) > now then
	return cjson.encode({now = whole(now), rest = whole(number(ends) - now)})
end

local paused, seen, timer, rung = {}, 0, nextTimer(), {}
for _, queue in ipairs(arg.paused or {}) do
	paused[queue] = true
end
if timer and timer <= now then
	rung = ring(arg.heads)
	timer = nextTimer()
end

-- retried puts promoted tasks that did not begin in time back to their places. They wait for a turn again: a task that
-- never begins must not be before all others for ever.
local function retried(bucket)
	local promoted = root .. "promoted:" .. bucket
	for _, task in ipairs(redis.call("ZRANGEBYSCORE", promoted, "-inf", whole(now - arg.begin), "LIMIT", 0, 1000)) do
		local r = read(task)
		redis.call("ZREM", promoted, task)
		if r and r.bucket == bucket and not r.malformed then
			r.back, r.tag = 0, math.min(r.tag, fresh(r))
			redis.call("HSET", root .. "task:" .. task, "in:" .. bucket, placed(r.reserved, r.tag, 0))
			enlist(r)
		end
	end
end

local function promotedOf(bucket)
	local promoted = redis.call("ZRANGE", root .. "promoted:" .. bucket, 0, arg.promoted - 1, "WITHSCORES")
	local tasks = {}
	for i = 1, #promoted, 2 do
		local r = read(promoted[i])
		if r and r.bucket == bucket and not r.malformed then
			tasks[#tasks + 1] = shown(promoted[i], r, tonumber(promoted[i + 1]))
		end
	end
	seen = seen + #tasks
	return tasks
end

-- drop removes what lanes has found to be lost.
local function drop(lost)
	for _, l in ipairs(lost) do
		if l.id then
			unlist(l)
		elseif l.part or not l.class then
			redis.call("HDEL", root .. "parts:" .. l.bucket, l.part or l.queue)
		else
			redis.call("ZREM", under("ring", l.bucket, l.queue, l.class), l.tenant)
		end
		if l.malformed then
			redis.call("DEL", root .. "task:" .. l.malformed)
		end
	end
	return #lost > 0
end

local due, looked, again, next = {}, {}, false, nextLook()
local buckets = next and next <= now and redis.call("ZRANGEBYSCORE", KEYS[1], "-inf", whole(now), "LIMIT", 0, arg.due) or {}
for _, bucket in ipairs(buckets) do
	if seen >= 2 * (arg.heads + arg.promoted) then
		break
	end
	local state, offset, failed = unpack(redis.call("HMGET", root .. "meta:" .. bucket, "state", "offset", "failed_until"))
	if failed and number(failed) > now then
		redis.call("ZADD", KEYS[1], whole(number(failed)), bucket)
	elseif not tidy(bucket) then
		retried(bucket)
		local promoted = promotedOf(bucket)
		local waiting, lost = lanes(bucket, arg.some and arg.some[bucket] or arg.few, paused)
		local planned = "0"
		if drop(lost) then -- the bucket stays due
			again = true
		else
			planned = whole(now + arg.lease)
			redis.call("ZADD", KEYS[1], planned, bucket)
		end
		seen = seen + waiting.read
		due[#due + 1] = {
			bucket = bucket, planned = planned, state = state or nil, offset = whole(number(offset)),
			failed = failed and true or false, promoted = some(promoted), waiting = waiting,
			promoted_count = redis.call("ZCARD", root .. "promoted:" .. bucket),
		}
		looked[bucket] = true
	end
end

if #buckets > 0 then
	next = nil
	local index = redis.call("ZRANGE", KEYS[1], 0, #due, "WITHSCORES")
	for i = 1, #index, 2 do
		if not looked[index[i]] then
			next = tonumber(index[i + 1])
			break
		end
	end
end
local rest = again and 0 or math.max(0, math.min(arg.rest, (next or math.huge) - now, (timer or math.huge) - now))
redis.call("HSET", KEYS[3], "id", arg.id, "until", whole(now + rest + arg.lease), "now", whole(now))
if duty ~= arg.id then -- not at each look, to save a command; after an hour the same process takes over again
	redis.call("PEXPIRE", KEYS[3], 3600000 + math.ceil((rest + arg.lease) / 1000))
end
return cjson.encode({
	now = whole(now), on_duty = true, took_over = duty ~= arg.id, rest = whole(rest), rung = some(rung), due = some(due),
})
