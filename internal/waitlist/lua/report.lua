-- report stores answers of buckets, and removes tasks that began.
--
--	ARGV[2...] -> see answers
--	then the tasks that began
--
-- Output: nothing.
local before, left = soonest(), {}
for j = answers(2), #ARGV do
	local bucket = withdraw(ARGV[j])
	if bucket then
		left[bucket] = true
	end
	redis.call("DEL", root .. "task:" .. ARGV[j])
end
for bucket in pairs(left) do
	tidy(bucket)
end
wake(before)
return {}
