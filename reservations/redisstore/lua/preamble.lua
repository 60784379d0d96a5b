-- preamble begins a new epoch when the server may have lost buckets, and where the epoch is more than a minute ahead:
-- the clock was wrong when it began, and each bucket would wait until then.
--
--	KEYS -> a bucket, its queue, and the key of the epoch
local time = redis.call("TIME")
local now = string.format("%s%06d", time[1], tonumber(time[2]))
local run = string.match(redis.call("INFO", "server"), "run_id:(%w+)") or ""
local epoch = redis.pcall("GET", KEYS[3])
if type(epoch) ~= "string" or string.sub(epoch, 17) ~= run or
	(tonumber(string.sub(epoch, 1, 16)) or math.huge) > tonumber(now) + 60000000 then
	epoch = now .. run
	redis.call("SET", KEYS[3], epoch)
end
epoch = string.sub(epoch, 1, 16)
local stored = redis.pcall("GET", KEYS[1]) or ""
if type(stored) == "table" and ARGV[1] ~= "any" then
	return stored -- the key is no string
end
