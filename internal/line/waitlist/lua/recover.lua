-- recover ends the failures of some buckets, and returns their number.
local before = soonest()
local buckets = redis.call("ZRANGE", KEYS[2], 0, arg.most - 1)
for _, bucket in ipairs(buckets) do
	redis.call("HDEL", root .. "meta:" .. bucket, "failed_until", "away_since")
	redis.call("ZREM", KEYS[2], bucket)
	if not tidy(bucket) then
		forward(bucket)
	end
end
wake(before)
return cjson.encode({ended = #buckets})
