-- lanes are the lists of a bucket, for the scripts that read a waitlist.

-- read returns the record of a task in the bucket: tag, tokens, urgent, reserved, turn of its class, class. It returns
-- nil if the task is in another bucket, or if its record has expired; nil and true if the record is malformed.
local function read(bucket, task)
	local kept = redis.call("HMGET", root .. "task:" .. task, "bucket", "tokens", "urgent", "in:" .. bucket)
	local at, tokens, urgent, inside = unpack(kept)
	if at ~= bucket then
		return nil
	end
	local tag, reserved, _, turn, class = place(inside)
	if not tag then
		return nil, true
	end
	return {tag = tag, tokens = tokens or "{}", urgent = urgent or "0", reserved = reserved, turn = turn, class = class}
end

-- addTask adds a task to the answer: task; tag; tokens; "1" urgent; "1" reserved; its turn; since, when it was promoted.
local function addTask(answer, task, record, since)
	add(answer, task, exact(record.tag), record.tokens, record.urgent, record.reserved, exact(record.turn), since)
end

-- addLanes adds the lanes of a bucket to the answer, but the ones of paused queues: the latest start of a turn, and the
-- number of lanes. For each lane: its class; the end of the last turn of the class; the number of its tasks, and of
-- its first ones, at most that many; these tasks. It returns their number, and the tasks that have no record: lane, id
-- and whether it is malformed.
local function addLanes(answer, bucket, most, paused)
	local meta, all, lost = root .. "meta:" .. bucket, 0, {}
	add(answer, exact(number(redis.call("HGET", meta, "virtual"))), "")
	local lanes, numbers = #answer, 0
	for _, lane in ipairs(redis.call("SMEMBERS", root .. "queues:" .. bucket)) do
		local queue, class = parts(lane)
		if not paused[queue] then
			local heads = redis.call("ZRANGE", listOf(bucket, lane), 0, most - 1)
			add(answer, class, exact(number(redis.call("HGET", meta, "outer:" .. class))),
				tostring(redis.call("ZCARD", listOf(bucket, lane))), "")
			local number, found = #answer, 0
			for _, id in ipairs(heads) do
				local task = queue .. "/" .. id
				local record, malformed = read(bucket, task)
				if record then
					addTask(answer, task, record, "0")
					found = found + 1
				else
					lost[#lost + 1] = {lane = lane, id = id, malformed = malformed and task}
				end
			end
			answer[number], numbers, all = tostring(found), numbers + 1, all + #heads
		end
	end
	answer[lanes] = tostring(numbers)
	return all, lost
end
