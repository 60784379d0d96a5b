-- skip stores a tick of a series as if its task had been enqueued.
--
--	KEYS[1] -> hash of the series of the queue
--	ARGV[1] -> series
--	ARGV[2] -> milliseconds of the tick
--	ARGV[3] -> schedule
local last = string.match(redis.call("HGET", KEYS[1], ARGV[1]) or "", "^%d+")
if not last or tonumber(last) < tonumber(ARGV[2]) then
	redis.call("HSET", KEYS[1], ARGV[1], ARGV[2] .. " " .. ARGV[3])
end
return 1
