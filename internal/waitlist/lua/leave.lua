-- leave removes tasks.
--
--	ARGV[2...] -> tasks
--
-- Output, for each task: see arrived, as it was before.
local before, answer, left = soonest(), {}, {}

-- giveBack moves the end of a caller's flow back by the cost of the caller: otherwise a flow whose callers do not have
-- the time to wait would be further behind with each of them. Tasks keep their turns: a later task of the flow would
-- pass earlier ones.
local function giveBack(bucket, task)
	if split(task) ~= callers then
		return
	end
	local given, flow, inside = unpack(redis.call("HMGET", root .. "task:" .. task, "given", "flow", "in:" .. bucket))
	local _, _, _, _, class = place(inside)
	if class and number(given) > 0 then
		redis.call("ZADD", root .. "flows:" .. with(bucket, class), "XX", "INCR", exact(-number(given)), flow)
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
