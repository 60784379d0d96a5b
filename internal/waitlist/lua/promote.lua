-- promote moves tasks from their lists to the promoted tasks, and plans the next looks. Times of promotion
-- differ by a microsecond, so that they keep the order.
--
--	ARGV[2]    -> id of the caller
--	ARGV[3...] -> for each bucket: bucket, planned (from the look), microseconds until the next look or 0, number
--	              of tasks, the tasks
--
-- Output: "1" on duty; the promoted tasks.
local duty, retry = unpack(redis.call("HMGET", KEYS[3], "id", "retry"))
if duty ~= ARGV[2] then
	return {"0"}
end
local answer, i = {"1"}, 3
while i < #ARGV do
	local bucket, planned, next = ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
	local last = i + 3 + tonumber(ARGV[i + 3])
	local meta, promoted = root .. "meta:" .. bucket, root .. "promoted:" .. bucket
	local virtual, inner, outer = number(redis.call("HGET", meta, "virtual")), {}, {}
	local moment = math.max(now, 1 + tonumber(redis.call("ZRANGE", promoted, -1, -1, "WITHSCORES")[2] or 0))
	for j = i + 4, last do
		local _, id = split(ARGV[j])
		local lane, tag, reserved, epoch, cost, class = laneIn(bucket, ARGV[j])
		if lane and unlist(bucket, lane, id) then
			redis.call("ZADD", promoted, whole(moment), ARGV[j])
			moment = moment + 1
			inner[class] = math.max(tag, inner[class] or number(redis.call("HGET", meta, "inner:" .. class)))
			if cost > 0 then -- its first promotion: the class has had a turn
				virtual = math.max(virtual, outer[class] or number(redis.call("HGET", meta, "outer:" .. class)))
				outer[class] = virtual + cost
				redis.call("HSET", root .. "task:" .. ARGV[j], "in:" .. bucket, placed(epoch, reserved, tag, 0, class))
			end
			answer[#answer + 1] = ARGV[j]
		end
	end
	for class, tag in pairs(inner) do
		redis.call("HSET", meta, "inner:" .. class, exact(tag), "virtual", exact(virtual))
		redis.call("ZREMRANGEBYSCORE", root .. "flows:" .. with(bucket, class), "-inf", exact(tag))
	end
	for class, ends in pairs(outer) do
		redis.call("HSET", meta, "outer:" .. class, exact(ends))
	end
	local entry = redis.call("ZSCORE", KEYS[1], bucket)
	if not tidy(bucket) and (not entry or tonumber(entry) == planned and planned > now) then
		local at, oldest = now + (next > 0 and next or number(retry)), redis.call("ZRANGE", promoted, 0, 0, "WITHSCORES")
		if #oldest > 0 then
			at = math.min(at, tonumber(oldest[2]) + number(retry))
		end
		redis.call("ZADD", KEYS[1], whole(at), bucket)
	end
	i = last + 1
end
return answer
