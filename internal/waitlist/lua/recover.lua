-- recover ends the failures of some buckets.
--
--	ARGV[2] -> the largest number of buckets
--
-- Output: the number of failures that ended.
local before = soonest()
local buckets = redis.call("ZRANGE", KEYS[2], 0, tonumber(ARGV[2]) - 1)
for _, bucket in ipairs(buckets) do
	redis.call("HDEL", root .. "meta:" .. bucket, "failed_until", "away_since")
	redis.call("ZREM", KEYS[2], bucket)
	if not tidy(bucket) then
		forward(bucket)
	end
end
wake(before)
return {tostring(#buckets)}
