-- describe adds a bucket to the answer. First come the numbers of waiting and promoted tasks; state and offset; now;
-- the next look or 0; the end of the failure or 0; "1" if only this bucket fails. Then come the number of meters; the
-- name and sum of each; the number of named flows with tasks; the number of flows that follow; the name and number of
-- tasks of each.
local function describe(bucket, answer)
	local state, offset, failed, faulty = unpack(
		redis.call("HMGET", root .. "meta:" .. bucket, "state", "offset", "failed_until", "faulty_since"))
	add(answer, tostring(count(bucket)), tostring(redis.call("ZCARD", root .. "promoted:" .. bucket)), state or "",
		whole(number(offset)), whole(now), whole(number(redis.call("ZSCORE", KEYS[1], bucket))), whole(number(failed)),
		faulty and "1" or "0")
	addPairs(answer, redis.call("HGETALL", root .. "sums:" .. bucket))
	local waiting = root .. "waiting:" .. bucket
	local flows, unnamed = {}, redis.call("ZSCORE", waiting, "")
	local largest = redis.call("ZREVRANGE", waiting, 0, 10, "WITHSCORES")
	for i = 1, #largest, 2 do
		if largest[i] ~= "" and #flows < 20 then
			add(flows, largest[i], largest[i + 1])
		end
	end
	add(answer, tostring(redis.call("ZCARD", waiting) - (unnamed and 1 or 0)))
	addPairs(answer, flows)
end
