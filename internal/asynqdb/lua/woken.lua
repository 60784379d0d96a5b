-- woken has the functions that the scripts share. KEYS[1] is asynq's pending list, ARGV[1] the prefix of its task
-- keys.
--
-- headway_woken is the pending_since that Wake gave the task. asynq deletes pending_since when it delivers the task,
-- and sets another one when it moves the task to the pending list. So an old mark does not count.

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
