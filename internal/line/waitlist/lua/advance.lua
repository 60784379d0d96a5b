-- advance moves waiting tasks from their lists to the promoted tasks, in this order, and adds each that still waited to
-- the answer. A task that has not been promoted before is a turn of its class, and in that a turn of its tenant. Times of
-- promotion differ by a microsecond, so that they keep the order.
local function advance(bucket, tasks, answer)
	local meta, promoted, tags = root .. "meta:" .. bucket, root .. "promoted:" .. bucket, root .. "tags:" .. bucket
	local moment = math.max(now, 1 + tonumber(redis.call("ZRANGE", promoted, -1, -1, "WITHSCORES")[2] or 0))
	local virtual, classes = nil, {} -- what is known of turns; written once, at the end
	local function known(class)
		if not classes[class] then
			local all, own, ended = unpack(redis.call("HMGET", meta, "virtual", "virtual:" .. class, "turn:" .. class))
			virtual = virtual or number(all)
			classes[class] = {virtual = number(own), ended = number(ended), tenants = {}, tags = {}}
		end
		return classes[class]
	end
	for _, task in ipairs(tasks) do
		local r = read(task)
		local waited, others
		if r and r.bucket == bucket and not r.malformed then
			waited, others = unlist(r)
		end
		if waited then
			redis.call("ZADD", promoted, whole(moment), task)
			if r.back == 0 then
				local class = known(r.class)
				virtual = math.max(virtual, class.ended)
				class.ended = virtual + number(r.turn)
				local ended = class.tenants[r.tenant] or
					number(redis.call("ZSCORE", under("turns", bucket, r.class), r.tenant))
				class.virtual = math.max(class.virtual, ended)
				class.tenants[r.tenant] = class.virtual + number(r.part)
				class.tags[r.tenant] = others and math.max(r.tag, class.tags[r.tenant] or 0) or nil
				redis.call("HSET", root .. "task:" .. task, "in:" .. bucket, placed(r.reserved, r.tag, moment))
			end
			moment = moment + 1
			answer[#answer + 1] = task
		end
	end

	for name, class in pairs(classes) do
		redis.call("HSET", meta, "virtual", exact(virtual), "virtual:" .. name, exact(class.virtual),
			"turn:" .. name, exact(class.ended))
		local turns, rings = under("turns", bucket, name), {}
		redis.call("ZREMRANGEBYSCORE", turns, "-inf", exact(class.virtual))
		for _, part in ipairs(redis.call("HKEYS", root .. "parts:" .. bucket)) do
			local queue, of = parts(part)
			if of == name then
				rings[#rings + 1] = under("ring", bucket, queue, name)
			end
		end
		for tenant, ends in pairs(class.tenants) do
			if ends > class.virtual then
				redis.call("ZADD", turns, exact(ends), tenant)
			end
			for _, ring in ipairs(rings) do
				redis.call("ZADD", ring, "XX", exact(ends), tenant)
			end
			if class.tags[tenant] then
				local field = name .. "\0" .. tenant
				local tag = exact(math.max(class.tags[tenant], number(redis.call("HGET", tags, field))))
				redis.call("HSET", tags, field, tag)
				redis.call("ZREMRANGEBYSCORE", under("flows", bucket, name, tenant), "-inf", tag)
			end
		end
	end
end
