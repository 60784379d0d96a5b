-- lanes are the lists of a bucket, for the scripts that read a waitlist. A lane is the list of a tenant in a queue and a
-- class, or the list of tasks that came back in a queue.

-- shown is what the answer has of a task: it has been promoted since then, or never (zero).
local function shown(name, r, since)
	return {
		task = name, tokens = r.tokens or "{}", urgent = r.urgent == "1", reserved = r.reserved == "1",
		tag = exact(number(r.tag)), back = whole(number(r.back)), since = whole(since),
		turn = exact(number(r.turn)), part = exact(number(r.part)),
	}
end

-- found adds a lane with its first tasks to the answer. Tasks without a record, and tenants without tasks, are added to
-- lost.
local function found(answer, lost, lane, list, most)
	local heads = {}
	for _, id in ipairs(redis.call("ZRANGE", list, 0, most - 1)) do
		local name = lane.queue .. "/" .. id
		local r = read(name)
		if r and r.bucket == lane.bucket and not r.malformed then
			heads[#heads + 1] = shown(name, r, 0)
		else
			local broken = r and r.bucket == lane.bucket and name
			lost[#lost + 1] = {
				queue = lane.queue, bucket = lane.bucket, class = lane.class, tenant = lane.tenant, id = id,
				back = lane.class and 0 or 1, malformed = broken,
			}
		end
	end
	lane.heads, lane.count = some(heads), redis.call("ZCARD", list)
	if lane.count == 0 then
		lost[#lost + 1] = lane
	end
	answer.read = answer.read + #heads
	answer.lanes[#answer.lanes + 1] = lane
end

-- lanes is the beginning of a waitlist, but of paused queues: how many tasks wait in it, the lanes of its first tenants,
-- and lost ones. Of many tenants it has fewer tasks each.
local function lanes(bucket, most, paused)
	local meta, lost, answer = root .. "meta:" .. bucket, {}, {lanes = {}, waiting = 0, read = 0}
	answer.virtual = exact(number(redis.call("HGET", meta, "virtual")))
	local all = redis.call("HGETALL", root .. "parts:" .. bucket)
	for i = 1, #all, 2 do
		local queue, class = parts(all[i])
		if paused[queue] then
			-- none of its tasks starts
		elseif not class then
			answer.waiting = answer.waiting + number(all[i + 1])
			found(answer, lost, {bucket = bucket, queue = queue}, under("list", bucket, queue), most)
		else
			answer.waiting = answer.waiting + number(all[i + 1])
			local virtual, ends = unpack(redis.call("HMGET", meta, "virtual:" .. class, "turn:" .. class))
			local tenants = redis.call("ZRANGE", under("ring", bucket, queue, class), 0, most - 1, "WITHSCORES")
			local each = math.min(most, math.ceil(4 * most / #tenants) + 1)
			for t = 1, #tenants, 2 do
				found(answer, lost, {
					bucket = bucket, queue = queue, class = class, tenant = tenants[t], ends = exact(number(ends)),
					virtual = exact(number(virtual)), begins = exact(number(tenants[t + 1])),
				}, under("list", bucket, queue, class, tenants[t]), each)
			end
			if #tenants == 0 then
				lost[#lost + 1] = {bucket = bucket, part = all[i]}
			end
		end
	end
	answer.lanes = some(answer.lanes)
	return answer, lost
end
