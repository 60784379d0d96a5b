-- order is the rule that orders waiting tasks, for the scripts that read a waitlist.
--
-- Classes share a bucket by start-time fair queueing. The next task is the head of the class whose turn begins first.
-- The cost of the task moves the next turn of its class on. Within a class the smallest tag is first. A task that was
-- promoted before has taken its turn already, so it is before all others.

-- read returns the record of a task in the bucket: tag, tokens, urgent, reserved, cost of its turn, class. It returns
-- nil if the task is in another bucket, or if its record has expired; nil and true if the record is malformed.
local function read(bucket, task)
	local kept = redis.call("HMGET", root .. "task:" .. task, "bucket", "tokens", "urgent", "in:" .. bucket)
	local at, tokens, urgent, inside = unpack(kept)
	if at ~= bucket then
		return nil
	end
	local tag, reserved, _, cost, class = place(inside)
	if not tag then
		return nil, true
	end
	return {tag = tag, tokens = tokens or "{}", urgent = urgent or "0", reserved = reserved, cost = cost, class = class}
end

-- heads returns the first waiting tasks of each class, in order, with the rank in their own list; then the names of the
-- classes; then the number of waiting tasks.
local function heads(bucket, most, paused)
	local classes, names, all = {}, {}, 0
	for _, lane in ipairs(redis.call("SMEMBERS", root .. "queues:" .. bucket)) do
		local queue, class = parts(lane)
		if not paused[queue] then
			if not classes[class] then
				classes[class] = {}
				names[#names + 1] = class
			end
			local some = redis.call("ZRANGE", listOf(bucket, lane), 0, most - 1, "WITHSCORES")
			for i = 1, #some, 2 do
				table.insert(classes[class], {queue = queue, lane = lane, id = some[i], tag = tonumber(some[i + 1]), rank = i})
			end
			all = all + redis.call("ZCARD", listOf(bucket, lane))
		end
	end
	for _, tasks in pairs(classes) do
		table.sort(tasks, function(a, b)
			if a.tag ~= b.tag then
				return a.tag < b.tag
			elseif a.queue ~= b.queue then
				return a.queue < b.queue
			end
			return a.rank < b.rank
		end)
	end
	table.sort(names)
	return classes, names, all
end

-- first calls visit with waiting tasks in order, until it returns true or the limit is reached. It returns how many
-- other tasks wait.
local function first(bucket, most, paused, visit)
	local classes, names, others = heads(bucket, most, paused)
	local meta, ends, next = root .. "meta:" .. bucket, {}, {}
	local virtual = number(redis.call("HGET", meta, "virtual"))
	for _, class in ipairs(names) do
		ends[class] = math.max(virtual, number(redis.call("HGET", meta, "outer:" .. class)))
		next[class] = 1
	end
	for _ = 1, most do
		local best, begins, class = nil, 0, ""
		for _, name in ipairs(names) do
			local head = classes[name][next[name]]
			if head then
				if not head.task then
					head.task = head.queue .. "/" .. head.id
					head.record, head.malformed = read(bucket, head.task)
				end
				local at = -1
				if head.record and head.record.cost > 0 then
					at = ends[name]
				end
				if not best or at < begins then
					best, begins, class = head, at, name
				end
			end
		end
		if not best then
			return others
		end
		next[class], others = next[class] + 1, others - 1
		if best.record then
			ends[class] = ends[class] + best.record.cost
		end
		if visit(best) then
			return others
		end
	end
	return others
end
