-- leave removes tasks, and returns what the waitlists held of them.
local before, answer, left = soonest(), {}, {}

-- giveBack has the next task of a flow not wait for the turns of tasks that left. A flow without tasks is forgotten.
-- A caller moves the end of its flow back by its cost: otherwise a flow whose callers do not have the time to wait
-- would be further behind with each of them. A task among others keeps its turn: a later task of the flow would pass
-- earlier ones.
local function giveBack(r)
	local flows = under("flows", r.bucket, r.class, r.tenant)
	if not redis.call("ZSCORE", root .. "waiting:" .. r.bucket, whose(r)) then
		redis.call("ZREM", flows, r.flow)
	elseif r.queue == callers then
		redis.call("ZADD", flows, "XX", "INCR", exact(-number(r.cost)), r.flow)
	end
end

for i, task in ipairs(arg.tasks) do
	answer[i] = arrived(task)
	local r = withdraw(task)
	if r then
		left[r.bucket] = true
		giveBack(r)
	end
	redis.call("DEL", root .. "task:" .. task)
end
for bucket in pairs(left) do
	if not tidy(bucket) then
		forward(bucket)
	end
end
wake(before)
return cjson.encode({arrived = some(answer)})
