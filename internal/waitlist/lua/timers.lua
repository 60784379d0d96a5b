-- timers sets timers. A timer that is set again gets the new time.
--
--	ARGV[2...] -> for each timer: letter and task, when it is due: microseconds from now
--
-- Output: nothing.
local before = soonest()
for i = 2, #ARGV, 2 do
	redis.call("ZADD", root .. "timers", whole(now + tonumber(ARGV[i + 1])), ARGV[i])
end
wake(before)
return {}
