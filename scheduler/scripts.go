package scheduler

// The keys, below one root with a hash tag, so that one node of a cluster holds them all:
//
//	index          sorted set: the lines in which tasks wait, by the moment at which the first of each is due
//	leased         sorted set: tasks that were taken out of a line and are being woken, by the end of the lease
//	waker          hash: id of the waker on duty, and until when nobody else need look
//	line:LINE      sorted set: tasks by due, on the clock of the line. LINE is bucket@generation
//	clock:LINE     hash: offset (bucket's clock less Redis's), seen (when), shift, at, speed, version; low (see follow)
//	place:TASK     hash: line, place (JSON). TASK is queue/id
//	gaps           sorted set: lines from which tasks were withdrawn, by how long those would have taken, less what the line was moved on
//	refused:TASK   string: how often its provider refused the task in a row
//
// and the channel "sooner": who is on duty, and in how many microseconds the first task of all is due, where that came forward.
//
// All times are whole microseconds, which a float64 holds exactly until the year 2255; Redis keeps scores, and Lua numbers, as float64.
// Only Redis's own clock is read.

// preamble is shared by all scripts: KEYS[1] is the index, KEYS[2] is leased, ARGV[1] is the root of the other keys.
const preamble = `
local time = redis.call("TIME")
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])

-- clock is what is known of a line's clock. At the bucket's time t it reads t + shift + (t - at) * (speed - 1), from at on, and
-- t + shift before that. One that nobody gave a speed runs at 1.
local function clock(line)
	local c = redis.call("HMGET", ARGV[1] .. "clock:" .. line, "offset", "shift", "at", "speed")
	return {offset = tonumber(c[1] or 0), shift = tonumber(c[2] or 0), at = tonumber(c[3] or 0), speed = tonumber(c[4] or 1)}
end

-- reading is what a line's clock shows at a moment of Redis's.
local function reading(line, moment)
	local c = clock(line)
	local t = moment + c.offset
	if c.speed == 1 or t <= c.at then
		return t + c.shift
	end
	return math.floor(t + c.shift + (t - c.at) * (c.speed - 1) + 0.5)
end

-- moment is when, by Redis's clock, a line's clock shows due: the reverse of reading, rounded up so that it is not a hair too early. A clock that all
-- but stands still shows it never: then as late as can be counted.
local function moment(line, due)
	local c = clock(line)
	local left = due - c.shift - c.at
	if c.speed == 1 or left <= 0 then
		return math.ceil(due - c.shift - c.offset)
	end
	return math.min(math.ceil(c.at + left / c.speed - c.offset), 9007199254740992)
end

-- reindex notes when the first of a line is due; an empty line is forgotten, and its clock a minute later.
local function reindex(line)
	local first = redis.call("ZRANGE", ARGV[1] .. "line:" .. line, 0, 0, "WITHSCORES")
	if #first == 0 then
		redis.call("ZREM", KEYS[1], line)
		redis.call("PEXPIRE", ARGV[1] .. "clock:" .. line, 60000)
	else
		redis.call("ZADD", KEYS[1], moment(line, tonumber(first[2])), line)
	end
end

-- soonest is when the first of all lines is due, nil where none is there.
local function soonest()
	return tonumber(redis.call("ZRANGE", KEYS[1], 0, 0, "WITHSCORES")[2])
end

-- earlier is the answer of scripts that may bring the first moment forward: how long until then, or nothing. The waker on duty is told, for a process
-- that has no waker may be asking; where publishing is forbidden, it finds out by itself.
local function earlier(before)
	local after = soonest()
	if not after or before and after >= before then
		return ""
	end
	local left = string.format("%.0f", after - now)
	redis.pcall("PUBLISH", ARGV[1] .. "sooner", (redis.call("HGET", ARGV[1] .. "waker", "id") or "") .. " " .. left)
	return left
end
`

// follow makes a line's clock follow an answer of its bucket.
//
// Version, shift, at and speed: an older answer never overwrites a newer one. Until one comes, the speed is known for all time to come, and
// with it when each task is due: the scores of the index stay right while a clock runs at another speed than 1.
// Offset: sent - now is too low by what the answer took to come here, never too high; so the highest counts, and is given up
// slowly (0.5 ms a second, more than clocks drift). One that is lower by more than a second was held up on its way, or the
// bucket's clock was set back: the second one in a row is believed.
const follow = `
local function follow(line, sent, shift, version, at, speed)
	local key = ARGV[1] .. "clock:" .. line
	local c = redis.call("HMGET", key, "offset", "seen", "version", "low")
	local offset, seen, low = tonumber(c[1] or nil), tonumber(c[2] or 0), false
	local sample = sent - now
	if not offset then
		offset = sample
	else
		offset = math.floor(offset - math.max(0, now - seen) / 2000)
		if sample < offset - 1000000 and c[4] ~= "1" then
			low = true
		elseif sample < offset - 1000000 then
			offset = sample
		else
			offset = math.max(sample, offset)
		end
	end
	redis.call("HSET", key, "offset", string.format("%.0f", offset), "seen", string.format("%.0f", now), "low", low and "1" or "0")
	if not c[3] or tonumber(version) > tonumber(c[3]) then
		redis.call("HSET", key, "shift", shift, "version", version, "at", at, "speed", speed)
	end
end
`

// recordScript keeps the places of tasks and lets them stand in lines. A task that stood elsewhere stands there no more.
//
//	KEYS[1] -> index
//	KEYS[2] -> leased
//	ARGV[1] -> root of the other keys
//	then for each line:
//	ARGV[n]   -> line
//	ARGV[n+1] -> the bucket's clock when this was sent; empty for a line on Redis's own clock
//	ARGV[n+2] -> shift
//	ARGV[n+3] -> version of the bucket
//	ARGV[n+4] -> the bucket's clock when it answered: from then on the line's clock runs at
//	ARGV[n+5] -> this speed
//	ARGV[n+6] -> how many tasks
//	then for each of these tasks:
//	ARGV[n]   -> task
//	ARGV[n+1] -> due, on the clock of the line; for a line on Redis's own clock: from now
//	ARGV[n+2] -> place (JSON)
//	ARGV[n+3] -> how long to keep the place, in milliseconds
//
// Output: how long until the first of all lines is due, where this call brought that forward; else an empty string.
const recordScript = preamble + follow + `
local before, i = soonest(), 2
while i < #ARGV do
	local line, start = ARGV[i], 0
	if ARGV[i + 1] == "" then
		start = reading(line, now)
	else
		follow(line, tonumber(ARGV[i + 1]), ARGV[i + 2], ARGV[i + 3], ARGV[i + 4], ARGV[i + 5])
	end
	redis.call("PERSIST", ARGV[1] .. "clock:" .. line)
	local tasks = tonumber(ARGV[i + 6])
	i = i + 7
	for _ = 1, tasks do
		local place = ARGV[1] .. "place:" .. ARGV[i]
		local old = redis.call("HGET", place, "line")
		if old and old ~= line and redis.call("ZREM", ARGV[1] .. "line:" .. old, ARGV[i]) == 1 then
			reindex(old)
		end
		redis.call("HSET", place, "line", line, "place", ARGV[i + 2])
		redis.call("PEXPIRE", place, ARGV[i + 3])
		redis.call("ZREM", KEYS[2], ARGV[i])
		redis.call("ZADD", ARGV[1] .. "line:" .. line, string.format("%.0f", start + tonumber(ARGV[i + 1])), ARGV[i])
		i = i + 4
	end
	reindex(line)
end
return earlier(before)
`

// recallScript hands out the places of tasks that were delivered, and takes the tasks out of their lines: nobody wakes them again.
//
//	KEYS[1] -> index
//	KEYS[2] -> leased
//	ARGV[1] -> root of the other keys
//	then the tasks
//
// Output: for each task the place (JSON), empty where none is kept.
const recallScript = preamble + `
local answer, left = {}, {}
for i = 2, #ARGV do
	local place = ARGV[1] .. "place:" .. ARGV[i]
	local kept = redis.call("HMGET", place, "line", "place")
	redis.call("ZREM", KEYS[2], ARGV[i])
	if kept[1] then
		redis.call("DEL", place)
		if redis.call("ZREM", ARGV[1] .. "line:" .. kept[1], ARGV[i]) == 1 then
			left[kept[1]] = true
		end
	end
	answer[i - 1] = kept[2] or ""
end
for line in pairs(left) do
	reindex(line)
end
return answer
`

// moveScript makes lines follow their buckets. A line that nobody knows is left unknown: who joins it brings the clock along.
//
//	KEYS[1] -> index
//	KEYS[2] -> leased
//	ARGV[1] -> root of the other keys
//	then for each line:
//	ARGV[n]   -> line
//	ARGV[n+1] -> the bucket's clock when this was sent
//	ARGV[n+2] -> shift
//	ARGV[n+3] -> version of the bucket
//	ARGV[n+4] -> the bucket's clock when it answered
//	ARGV[n+5] -> the speed of the line's clock from then on
//	ARGV[n+6] -> how long those would have taken that were withdrawn from the line
//
// Output: as for recordScript.
const moveScript = preamble + follow + `
local before = soonest()
for i = 2, #ARGV, 7 do
	if redis.call("EXISTS", ARGV[1] .. "clock:" .. ARGV[i]) == 1 then
		follow(ARGV[i], tonumber(ARGV[i + 1]), ARGV[i + 2], ARGV[i + 3], ARGV[i + 4], ARGV[i + 5])
		if tonumber(ARGV[i + 6]) > 0 then
			redis.call("ZINCRBY", ARGV[1] .. "gaps", ARGV[i + 6], ARGV[i])
		end
		reindex(ARGV[i])
	end
end
return earlier(before)
`

// releaseScript sets the clock of a line on Redis's own clock forward, so that everybody who stands in it now is due.
//
//	KEYS[1] -> index
//	KEYS[2] -> leased
//	ARGV[1] -> root of the other keys
//	ARGV[2] -> line
//
// Output: as for recordScript.
const releaseScript = preamble + `
local line, before = ARGV[2], soonest()
local last = redis.call("ZRANGE", ARGV[1] .. "line:" .. line, -1, -1, "WITHSCORES")
if #last > 0 and tonumber(last[2]) > reading(line, now) then
	redis.call("HSET", ARGV[1] .. "clock:" .. line, "shift", string.format("%.0f", tonumber(last[2]) - now))
	reindex(line)
end
return earlier(before)
`

// popScript takes tasks that are due out of their lines, in the order of their lines, and leases them to the caller: should
// it die before they are woken, the next to look after the lease takes them over. A concurrent caller gets others.
//
//	KEYS[1] -> index
//	KEYS[2] -> leased
//	KEYS[3] -> waker
//	ARGV[1] -> root of the other keys
//	ARGV[2] -> id of the caller
//	ARGV[3] -> how long before its time a task is due at the latest
//	ARGV[4] -> the most tasks to take; zero leaves: the caller is on duty no more
//	ARGV[5] -> length of a lease
//	ARGV[6] -> the longest anybody on duty rests
//	ARGV[7] -> how much later than that the others look
//	ARGV[8] -> how much sooner tasks come along where others are due
//	then for each task of an earlier call that is not leased to the caller any more:
//	ARGV[n]   -> task
//	ARGV[n+1] -> empty: it is woken; else how long until it is tried again
//
// Output: how long the caller may rest, how many of the tasks are urgent, then the tasks, the urgent ones first.
const popScript = preamble + `
-- ends is when the first lease does, nil where there is none.
local function ends()
	return tonumber(redis.call("ZRANGE", KEYS[2], 0, 0, "WITHSCORES")[2])
end

local early, most = tonumber(ARGV[3]), tonumber(ARGV[4])
local ahead = now + early + tonumber(ARGV[8])
for i = 9, #ARGV, 2 do
	if ARGV[i + 1] == "" then
		redis.call("ZREM", KEYS[2], ARGV[i])
	else
		redis.call("ZADD", KEYS[2], "XX", now + tonumber(ARGV[i + 1]), ARGV[i])
	end
end
local duty = redis.call("HMGET", KEYS[3], "id", "until")
if most == 0 then
	if duty[1] == ARGV[2] then
		redis.call("DEL", KEYS[3])
	end
	return {"0", "0"}
end

local lease = now + tonumber(ARGV[5])
local answer, urgent, first, ending = {}, {}, soonest(), ends()
if ending and ending <= now then
	for _, task in ipairs(redis.call("ZRANGEBYSCORE", KEYS[2], "-inf", now, "LIMIT", 0, most)) do
		redis.call("ZADD", KEYS[2], lease, task)
		answer[#answer + 1] = task
	end
end
local lines = {}
if first and first <= ahead then
	lines = redis.call("ZRANGEBYSCORE", KEYS[1], "-inf", ahead, "LIMIT", 0, most)
end
for _, line in ipairs(lines) do
	local room = most - #answer - #urgent
	if room <= 0 then
		break
	end
	local key = ARGV[1] .. "line:" .. line
	local due = redis.call("ZRANGEBYSCORE", key, "-inf", reading(line, ahead), "LIMIT", 0, room)
	local to = string.sub(line, -1) == "` + expressMark + `" and urgent or answer
	for _, task in ipairs(due) do
		redis.call("ZREM", key, task)
		redis.call("ZADD", KEYS[2], lease, task)
		to[#to + 1] = task
	end
	reindex(line)
end

local rest = tonumber(ARGV[6])
if #answer + #urgent > 0 then
	first, ending = soonest(), ends()
end
if first then
	rest = math.min(rest, first - early - now)
end
if ending then
	rest = math.min(rest, ending - now)
end
rest = math.max(0, rest)
if not duty[1] or duty[1] == ARGV[2] or tonumber(duty[2]) <= now then
	redis.call("HSET", KEYS[3], "id", ARGV[2], "until", string.format("%.0f", now + rest + tonumber(ARGV[7])))
	redis.call("PEXPIRE", KEYS[3], 10000)
else
	rest = tonumber(duty[2]) - now
end
local all = {string.format("%.0f", rest), tostring(#urgent)}
for _, tasks in ipairs({urgent, answer}) do
	for _, task in ipairs(tasks) do
		all[#all + 1] = task
	end
end
return all
`
