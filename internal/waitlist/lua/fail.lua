-- fail stores that a request to a bucket failed. The end of an outage of the store does not end the failure of
-- a bucket that fails alone. An outage is over after 30 s without a failure. The script forgets buckets whose
-- failures ended more than ten minutes ago.
--
--	ARGV[2] -> bucket.
--	ARGV[3] -> the shortest pause, in microseconds.
--	ARGV[4] -> the longest pause.
--	ARGV[5] -> by which part the pause is longer, 0 to 1.
--	ARGV[6] -> "1" if the store is down, "0" if the bucket alone fails.
--
-- Output: the pause in force; "1" if the failure began.
local bucket, meta, away = ARGV[2], root .. "meta:" .. ARGV[2], ARGV[6] == "1"
local since = away and "away_since" or "faulty_since"
local before = number(redis.call("HGET", meta, "failed_until"))
if away and before < now - 30000000 then
	redis.call("HDEL", meta, since)
end
redis.call("HSETNX", meta, "epoch", whole(now))
local began = redis.call("HSETNX", meta, since, whole(now))
local lasted = now - number(redis.call("HGET", meta, since))
local pause = math.min(math.max(lasted / 2, tonumber(ARGV[3])), tonumber(ARGV[4])) * (1 + tonumber(ARGV[5]))
local at = math.max(now + pause, before)
redis.call("HSET", meta, "failed_until", whole(at))
if away then
	redis.call("ZADD", KEYS[2], whole(at), bucket)
	redis.call("ZREMRANGEBYSCORE", KEYS[2], "-inf", now - 600000000)
else
	redis.call("ZREM", KEYS[2], bucket)
end
if not tidy(bucket) then
	redis.call("ZADD", KEYS[1], whole(at), bucket)
end
return {whole(at - now), tostring(began)}
