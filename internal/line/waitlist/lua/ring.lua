-- ring removes due timers, up to a limit. It returns the tasks that asynq must deliver, each behind the letter of its
-- timer. The letter is a capital for a task that waits in a list. A task that joined with a timer gets its tag now, and
-- enters the list.
local function ring(most)
	local rung = {}
	for _, timer in ipairs(redis.call("ZRANGEBYSCORE", root .. "timers", "-inf", whole(now), "LIMIT", 0, most)) do
		redis.call("ZREM", root .. "timers", timer)
		local letter, name = string.sub(timer, 1, 1), string.sub(timer, 2)
		local r = read(name)
		if r and not r.malformed and letter == "a" then
			open(r.bucket)
			if r.later then
				r.tag = behind(r)
				redis.call("HSET", root .. "task:" .. name, "in:" .. r.bucket, placed(r.reserved, r.tag, r.back))
				redis.call("HDEL", root .. "task:" .. name, "later")
			end
			enlist(r)
			charge(r, 1)
			forward(r.bucket)
		elseif r and waits(r) then
			rung[#rung + 1] = string.upper(letter) .. name
		else
			rung[#rung + 1] = letter .. name
		end
	end
	return rung
end
