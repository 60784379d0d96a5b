-- leave removes tasks.
--
--	ARGV[2...] -> tasks
--
-- Output, for each task: see arrived, as it was before.
local before, answer, left = soonest(), {}, {}

-- giveBack has the next task of a flow not wait for the turns of tasks that left. A flow without tasks is forgotten.
-- A caller moves the end of its flow back by its cost: otherwise a flow whose callers do not have the time to wait
-- would be further behind with each of them. A task among others keeps its turn: a later task of the flow would pass
-- earlier ones.
local function giveBack(bucket, task)
	local given, flow, inside = unpack(redis.call("HMGET", root .. "task:" .. task, "given", "flow", "in:" .. bucket))
	local _, _, _, _, class = place(inside)
	if not class or not flow then
		return
	end
	local flows = root .. "flows:" .. with(bucket, class)
	if not redis.call("ZSCORE", root .. "waiting:" .. bucket, flow) then
		redis.call("ZREM", flows, flow)
	elseif number(given) > 0 then
		redis.call("ZADD", flows, "XX", "INCR", exact(-number(given)), flow)
	end
end

for i = 2, #ARGV do
	arrived(ARGV[i], answer)
	local bucket = withdraw(ARGV[i])
	if bucket then
		left[bucket] = true
		giveBack(bucket, ARGV[i])
	end
	redis.call("DEL", root .. "task:" .. ARGV[i])
end
for bucket in pairs(left) do
	if not tidy(bucket) then
		forward(bucket)
	end
end
wake(before)
return answer
