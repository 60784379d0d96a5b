-- park removes tasks from the promoted tasks.
--
--	ARGV[2...] -> the tasks
--
-- Output: nothing.
for i = 2, #ARGV do
	local bucket, tokens, flow = unpack(redis.call("HMGET", root .. "task:" .. ARGV[i], "bucket", "tokens", "flow"))
	if bucket and redis.call("ZREM", root .. "promoted:" .. bucket, ARGV[i]) == 1 then
		charge(bucket, tokens, flow, -1)
		tidy(bucket)
	end
end
return {}
