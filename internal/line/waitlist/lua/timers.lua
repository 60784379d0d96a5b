-- timers sets timers. A timer that is set again gets the new time.
local before = soonest()
for _, timer in ipairs(arg.timers) do
	redis.call("ZADD", root .. "timers", whole(now + timer.at), timer.name)
end
wake(before)
return "{}"
