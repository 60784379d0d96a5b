-- ring removes due timers, up to a limit. It returns the tasks that asynq must deliver, each behind the letter of its
-- timer. The letter is a capital for a task that waits in a list. A task that joined with a timer gets its tag now, and
-- enters the list.
local function ring(most)
	local rung = {}
	for _, timer in ipairs(redis.call("ZRANGEBYSCORE", root .. "timers", "-inf", whole(now), "LIMIT", 0, most)) do
		redis.call("ZREM", root .. "timers", timer)
		local letter, task = string.sub(timer, 1, 1), string.sub(timer, 2)
		local _, id = split(task)
		local record = root .. "task:" .. task
		local bucket, tokens, flow, later = unpack(redis.call("HMGET", record, "bucket", "tokens", "flow", "later"))
		local lane, tag, reserved, turn, class, _
		if bucket then
			lane, tag, reserved, _, turn, class = laneIn(bucket, task)
		end
		if lane and letter == "a" then
			local epoch, inner = open(bucket, class)
			if later then
				tag = behind(bucket, class, inner, flow or "", number(later))
				redis.call("HSET", record, "in:" .. bucket, placed(epoch, reserved, tag, turn, class))
				redis.call("HDEL", record, "later")
			end
			enlist(bucket, lane, id, tag)
			charge(bucket, tokens, flow, 1)
			forward(bucket)
		elseif lane and redis.call("ZSCORE", listOf(bucket, lane), id) then
			rung[#rung + 1] = string.upper(letter) .. task
		else
			rung[#rung + 1] = letter .. task
		end
	end
	return rung
end
