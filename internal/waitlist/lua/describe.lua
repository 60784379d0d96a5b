-- describe adds a bucket to the answer. First come the numbers of waiting and promoted tasks; state, generation,
-- version and offset; now; the next look or 0; the end of the failure or 0; "1" if only this bucket fails. Then come
-- the number of meters; the name and sum of each; the number of named flows with tasks; the number of flows that follow;
-- the name and number of tasks of each.
local function describe(bucket, answer)
	local kept = redis.call("HMGET", root .. "meta:" .. bucket, "state", "generation", "version", "offset", "failed_until",
		"faulty_since")
	local sums = redis.call("HGETALL", root .. "sums:" .. bucket)
	local texts = {
		tostring(count(bucket)), tostring(redis.call("ZCARD", root .. "promoted:" .. bucket)), kept[1] or "",
		whole(number(kept[2])),
		whole(number(kept[3])), whole(number(kept[4])), whole(now), whole(number(redis.call("ZSCORE", KEYS[1], bucket))),
		whole(number(kept[5])), kept[6] and "1" or "0", tostring(#sums / 2),
	}
	local waiting = root .. "waiting:" .. bucket
	local flows, unnamed = {}, redis.call("ZSCORE", waiting, "")
	local largest = redis.call("ZREVRANGE", waiting, 0, 10, "WITHSCORES")
	for i = 1, #largest, 2 do
		if largest[i] ~= "" and #flows < 20 then
			flows[#flows + 1] = largest[i]
			flows[#flows + 1] = largest[i + 1]
		end
	end
	local many = {tostring(redis.call("ZCARD", waiting) - (unnamed and 1 or 0)), tostring(#flows / 2)}
	for _, some in ipairs({texts, sums, many, flows}) do
		for _, text in ipairs(some) do
			answer[#answer + 1] = text
		end
	end
end
