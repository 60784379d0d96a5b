-- promote promotes tasks, and plans the next looks.
--
--	ARGV[2]    -> id of the caller
--	ARGV[3...] -> for each bucket: bucket, planned (from the look), microseconds until the next look or 0, number
--	              of tasks, the tasks
--
-- Output: "1" on duty; the promoted tasks.
local duty, retry = unpack(redis.call("HMGET", KEYS[3], "id", "retry"))
if duty ~= ARGV[2] then
	return {"0"}
end
local answer, i = {"1"}, 3
while i < #ARGV do
	local bucket, planned, next = ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
	local last = i + 3 + tonumber(ARGV[i + 3])
	local tasks = {}
	for j = i + 4, last do
		tasks[#tasks + 1] = ARGV[j]
	end
	advance(bucket, tasks, answer)
	local entry = redis.call("ZSCORE", KEYS[1], bucket)
	if not tidy(bucket) and (not entry or tonumber(entry) == planned and planned > now) then
		local at = now + (next > 0 and next or number(retry))
		local oldest = redis.call("ZRANGE", root .. "promoted:" .. bucket, 0, 0, "WITHSCORES")
		if #oldest > 0 then
			at = math.min(at, tonumber(oldest[2]) + number(retry))
		end
		redis.call("ZADD", KEYS[1], whole(at), bucket)
	end
	i = last + 1
end
return answer
