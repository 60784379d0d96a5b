-- wake moves tasks of one queue from asynq's scheduled or retry set to the head of its pending list.
--
--	KEYS[1] -> asynq's pending list: new tasks are pushed on its left, workers take from its right.
--	KEYS[2] -> asynq's scheduled set.
--	KEYS[3] -> asynq's retry set.
--	ARGV[1] -> prefix of asynq's task keys.
--	ARGV[2] -> number of urgent tasks.
--	ARGV[3] -> largest number of tasks woken before that the other tasks are put behind.
--	then the task IDs: the urgent ones first, each part in the order of delivery.
--
-- Output: for each task a number, the Wake.
--
-- headway_woken is the pending_since that the task was given here. asynq deletes pending_since when it delivers the
-- task, and sets another one when it moves the task to the pending list. So an old mark does not count.

-- woken reports whether a pending task was woken and not delivered since. A task that a stopping worker put back to the
-- head of the list has no pending_since, and still counts.
local function woken(mark, since)
	return mark and (not since or mark == since)
end

local function wokenAt(n) -- the n-th of the list, from its head
	local id = redis.call("LINDEX", KEYS[1], -n)
	if not id then
		return false
	end
	local t = redis.pcall("HMGET", ARGV[1] .. id, "headway_woken", "pending_since") -- an error is no mark
	return woken(t[1], t[2])
end

-- wokenBefore returns the number of woken tasks at the head of the list, at most most. No other task is between them.
local function wokenBefore(most)
	if not wokenAt(1) then
		return 0
	end
	local is, isnt = 1, 2
	while isnt <= most and wokenAt(isnt) do
		is, isnt = isnt, 2 * isnt
	end
	isnt = math.min(isnt, most + 1)
	while isnt - is > 1 do
		local between = math.floor((is + isnt) / 2)
		if wokenAt(between) then is = between else isnt = between end
	end
	return is
end

local time = redis.call("TIME")
local since = string.format("%d%06d000", tonumber(time[1]), tonumber(time[2]))
local sets, answer = {scheduled = KEYS[2], retry = KEYS[3]}, {}
local urgent, others = {}, {}
for i = 4, #ARGV do
	local state = redis.pcall("HGET", ARGV[1] .. ARGV[i], "state") -- a key of another type stops no other task
	local wake = 0
	if state == "active" then
		wake = 3
	elseif state == "pending" or state == "completed" then
		wake = 2
	elseif sets[state] and redis.call("ZREM", sets[state], ARGV[i]) == 1 then
		wake = 1
		local to = i - 3 <= tonumber(ARGV[2]) and urgent or others
		to[#to + 1] = ARGV[i]
	end
	answer[i - 3] = wake
end
local passed = {}
if #others > 0 then
	local n = wokenBefore(tonumber(ARGV[3]))
	if n > 0 then
		passed = redis.call("LRANGE", KEYS[1], -n, -1)
		redis.call("LTRIM", KEYS[1], 0, -n - 1)
	end
end
for i = #others, 1, -1 do
	redis.call("RPUSH", KEYS[1], others[i])
end
for i = 1, #passed do
	redis.call("RPUSH", KEYS[1], passed[i])
end
for i = #urgent, 1, -1 do
	redis.call("RPUSH", KEYS[1], urgent[i])
end
for _, ids in ipairs({urgent, others}) do
	for _, id in ipairs(ids) do
		redis.call("HSET", ARGV[1] .. id, "state", "pending", "pending_since", since, "headway_woken", since)
	end
end
announce(KEYS[1], #others + #urgent)
return answer
