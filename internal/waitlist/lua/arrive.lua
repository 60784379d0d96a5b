-- arrive reads the records of delivered tasks, and gives tags to tasks that will wait.
--
--	ARGV[2]    -> how long a tag is kept for a task that does not join, in milliseconds
--	ARGV[3...] -> for each task: task, "1" for a tag in any case, number of buckets, for each of these: bucket, flow,
--	              cost, class, cost in the class
--
-- Output, for each task: see arrived; then the number of waiting tasks of each of its buckets; then the moment of its
-- arrival, which is unique in a call.
local answer, counts, opened, i, moment = {}, {}, {}, 3, now

local function tag(task, bucket, flow, cost, class, turn)
	local record, given, key = root .. "task:" .. task, "tag:" .. bucket, with(bucket, class)
	if redis.call("HEXISTS", record, given) == 0 then
		opened[key] = opened[key] or {bucket, class, open(bucket, class)}
		local _, _, epoch, inner = unpack(opened[key])
		redis.call("HSET", record, given, placed(epoch, "0", behind(bucket, class, inner, flow, cost), tonumber(turn), class))
		redis.call("PEXPIRE", record, ARGV[2])
	end
end

while i < #ARGV do
	local first, last = i + 3, i + 2 + 5 * tonumber(ARGV[i + 2])
	local state, chosen = arrived(ARGV[i], answer), nil
	for b = first, last, 5 do
		counts[ARGV[b]] = counts[ARGV[b]] or count(ARGV[b])
		answer[#answer + 1] = tostring(counts[ARGV[b]])
		if not chosen and counts[ARGV[b]] > 0 then
			chosen = b
		end
	end
	if not chosen and ARGV[i + 1] == "1" and first < last then
		chosen = first
	end
	if chosen and state == "0" then
		tag(ARGV[i], unpack(ARGV, chosen, chosen + 4))
	end
	answer[#answer + 1] = whole(moment)
	i, moment = last + 1, moment + 1
end
for _, of in pairs(opened) do
	local bucket, class, _, _, busy = unpack(of)
	tidy(bucket) -- the tasks of an idle bucket may start at once, and never join
	redis.call("HSET", root .. "meta:" .. bucket, "busy:" .. class, busy)
end
return answer
