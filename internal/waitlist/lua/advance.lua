-- advance moves waiting tasks from their lists to the promoted tasks, in this order, and adds each that still waited to
-- the answer. Times of promotion differ by a microsecond, so that they keep the order.
local function advance(bucket, tasks, answer)
	local meta, promoted = root .. "meta:" .. bucket, root .. "promoted:" .. bucket
	local virtual, inner, outer = number(redis.call("HGET", meta, "virtual")), {}, {}
	local moment = math.max(now, 1 + tonumber(redis.call("ZRANGE", promoted, -1, -1, "WITHSCORES")[2] or 0))
	for _, task in ipairs(tasks) do
		local _, id = split(task)
		local lane, tag, reserved, epoch, cost, class = laneIn(bucket, task)
		if lane and unlist(bucket, lane, id) then
			redis.call("ZADD", promoted, whole(moment), task)
			moment = moment + 1
			inner[class] = math.max(tag, inner[class] or number(redis.call("HGET", meta, "inner:" .. class)))
			if cost > 0 then -- its first promotion: the class has had a turn
				virtual = math.max(virtual, outer[class] or number(redis.call("HGET", meta, "outer:" .. class)))
				outer[class] = virtual + cost
				redis.call("HSET", root .. "task:" .. task, "in:" .. bucket, placed(epoch, reserved, tag, 0, class))
			end
			answer[#answer + 1] = task
		end
	end
	for class, tag in pairs(inner) do
		redis.call("HSET", meta, "inner:" .. class, exact(tag), "virtual", exact(virtual))
		redis.call("ZREMRANGEBYSCORE", root .. "flows:" .. with(bucket, class), "-inf", exact(tag))
	end
	for class, ends in pairs(outer) do
		redis.call("HSET", meta, "outer:" .. class, exact(ends))
	end
end
