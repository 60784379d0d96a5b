-- fail stores that a request to a bucket failed. The end of an outage of the store does not end the failure of
-- a bucket that fails alone. An outage is over after 30 s without a failure. The script forgets buckets whose
-- failures ended more than ten minutes ago.
local bucket, meta = arg.bucket, root .. "meta:" .. arg.bucket
local first = arg.away and "away_since" or "faulty_since"
local before = number(redis.call("HGET", meta, "failed_until"))
if arg.away and before < now - 30000000 then
	redis.call("HDEL", meta, first)
end
redis.call("HSETNX", meta, "since", whole(now))
local began = redis.call("HSETNX", meta, first, whole(now)) == 1
local lasted = now - number(redis.call("HGET", meta, first))
local pause = math.min(math.max(lasted / 2, arg.shortest), arg.longest) * (1 + arg.random)
local at = math.max(now + pause, before)
redis.call("HSET", meta, "failed_until", whole(at))
if arg.away then
	redis.call("ZADD", KEYS[2], whole(at), bucket)
	redis.call("ZREMRANGEBYSCORE", KEYS[2], "-inf", now - 600000000)
else
	redis.call("ZREM", KEYS[2], bucket)
end
if not tidy(bucket) then
	redis.call("ZADD", KEYS[1], whole(at), bucket)
end
return cjson.encode({pause = whole(at - now), began = began})
