-- first stores the first tick of a series, unless it has one. A tick that can't be read, or is more than a day
-- ahead of the clock, is none: the clock was wrong, or something else has written it.
--
--	KEYS[1] -> hash of the series of the queue
--	ARGV[1] -> series
--	ARGV[2] -> schedule
--
-- Output: the clock of Redis in microseconds, and what is stored.
local time = redis.call("TIME")
local us = string.format("%d%06d", tonumber(time[1]), tonumber(time[2]))
local now, stored = string.sub(us, 1, -4), redis.call("HGET", KEYS[1], ARGV[1])
local digits = string.match(stored or "", "^(%d+) ")
local last = tonumber(digits or "")
if not last or last > tonumber(now) + 86400000 then
	stored = now .. " " .. ARGV[2]
	redis.call("HSET", KEYS[1], ARGV[1], stored)
end
return {us, stored}
