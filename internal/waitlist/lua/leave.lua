-- leave removes tasks.
--
--	ARGV[2...] -> tasks
--
-- Output, for each task: see arrived, as it was before.
local before, answer, left = soonest(), {}, {}
for i = 2, #ARGV do
	arrived(ARGV[i], answer)
	local bucket = withdraw(ARGV[i])
	if bucket then
		left[bucket] = true
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
