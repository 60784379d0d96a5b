-- look takes or renews the duty and returns the due buckets. It plans the next look at each of them for the end
-- of the lease. So any change after this look also changes the plan. The clock may run back by more than a second
-- after the last look: then every bucket is due, its last answer is deleted, and the duty is free.
--
--	ARGV[2]    -> id of the caller.
--	ARGV[3]    -> the longest rest, in microseconds, as are all times.
--	ARGV[4]    -> the lease.
--	ARGV[5]    -> the most heads of a bucket.
--	ARGV[6]    -> the most promoted tasks of a bucket.
--	ARGV[7]    -> how long a promoted task has to begin.
--	ARGV[8]    -> how many buckets to look at.
--	ARGV[9]    -> the heads of a bucket that is not named below.
--	ARGV[10]   -> number of paused queues; then their escaped names.
--	then buckets, each with the number of its heads.
--
-- Output: now; "1" on duty; "1" took over; rest; number of buckets; number of rung tasks; the rung tasks (see ring).
-- For each bucket: bucket; planned; state; offset; "1" failed; number of promoted tasks; how many of them follow;
-- these tasks; its lanes: see addTask and addLanes.
local id, rest, lease, retry = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[7])
local most, promotedMost, few, paused, some = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[9]), {}, {}
for i = 11, 10 + tonumber(ARGV[10]) do
	paused[ARGV[i]] = true
end
for i = 11 + tonumber(ARGV[10]), #ARGV, 2 do
	some[ARGV[i]] = tonumber(ARGV[i + 1])
end
local duty, ends, last = unpack(redis.call("HMGET", KEYS[3], "id", "until", "now"))
if last and now < number(last) - 1000000 then -- the clock ran back: plans and offsets are wrong
	ends = 0
	for _, bucket in ipairs(redis.call("ZRANGE", KEYS[1], 0, -1)) do
		redis.call("ZADD", KEYS[1], whole(now), bucket)
		redis.call("HDEL", root .. "meta:" .. bucket, "state", "generation", "version", "offset")
	end
end
if duty and duty ~= id and number(ends) > now then
	return {whole(now), "0", "0", whole(number(ends) - now), "0", "0"}
end

local answer, seen = {whole(now), "1", duty == id and "0" or "1", "", ""}, 0
local timer, rung = nextTimer(), {}
if timer and timer <= now then
	rung = ring(most)
	timer = nextTimer()
end
add(answer, tostring(#rung))
addAll(answer, rung)

-- retried puts promoted tasks that did not begin in time back into their lists.
local function retried(bucket)
	local promoted = root .. "promoted:" .. bucket
	for _, task in ipairs(redis.call("ZRANGEBYSCORE", promoted, "-inf", whole(now - retry), "LIMIT", 0, 1000)) do
		local queue, id = split(task)
		local record = read(bucket, task)
		redis.call("ZREM", promoted, task)
		if record then
			enlist(bucket, with(queue, record.class), id, record.tag)
		end
	end
end

local function addPromoted(bucket)
	local promoted = redis.call("ZRANGE", root .. "promoted:" .. bucket, 0, promotedMost - 1, "WITHSCORES")
	add(answer, tostring(redis.call("ZCARD", root .. "promoted:" .. bucket)), "0")
	local number, found = #answer, 0
	for i = 1, #promoted, 2 do
		local record = read(bucket, promoted[i])
		if record then
			addTask(answer, promoted[i], record, whole(tonumber(promoted[i + 1])))
			found = found + 1
		end
	end
	answer[number] = tostring(found)
	seen = seen + found
end

-- addHeads returns true if it found tasks without a record: they leave the list, and the bucket stays due.
local function addHeads(bucket)
	local found, lost = addLanes(answer, bucket, some[bucket] or few, paused)
	for _, head in ipairs(lost) do
		unlist(bucket, head.lane, head.id)
		if head.malformed then
			redis.call("DEL", root .. "task:" .. head.malformed)
		end
	end
	seen = seen + found
	return #lost > 0
end

local looked, numbers, again, next = {}, 0, false, nextLook()
local due = next and next <= now and redis.call("ZRANGEBYSCORE", KEYS[1], "-inf", whole(now), "LIMIT", 0, ARGV[8]) or {}
for _, bucket in ipairs(due) do
	if seen >= 2 * (most + promotedMost) then
		break
	end
	local state, offset, failed = unpack(redis.call("HMGET", root .. "meta:" .. bucket, "state", "offset", "failed_until"))
	if failed and number(failed) > now then
		redis.call("ZADD", KEYS[1], whole(number(failed)), bucket)
	elseif not tidy(bucket) then
		retried(bucket)
		add(answer, bucket, "0", state or "", whole(number(offset)), failed and "1" or "0")
		local planned = #answer - 3
		addPromoted(bucket)
		if addHeads(bucket) then
			again = true
		else
			answer[planned] = whole(now + lease)
			redis.call("ZADD", KEYS[1], answer[planned], bucket)
		end
		looked[bucket], numbers = true, numbers + 1
	end
end

if #due > 0 then
	next = nil
	local index = redis.call("ZRANGE", KEYS[1], 0, numbers, "WITHSCORES")
	for i = 1, #index, 2 do
		if not looked[index[i]] then
			next = tonumber(index[i + 1])
			break
		end
	end
end
rest = again and 0 or math.max(0, math.min(rest, (next or math.huge) - now, (timer or math.huge) - now))
redis.call("HSET", KEYS[3], "id", id, "until", whole(now + rest + lease), "retry", ARGV[7], "now", whole(now))
if duty ~= id then -- not at each look, to save a command; after an hour the same process takes over again
	redis.call("PEXPIRE", KEYS[3], 3600000 + math.ceil((rest + lease) / 1000))
end
answer[4], answer[5] = whole(rest), tostring(numbers)
return answer
