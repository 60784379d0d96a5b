-- position reads what stands before a task. It changes nothing.
--
--	ARGV[2] -> task
--	ARGV[3] -> the largest number of tasks ahead whose tokens are read
--
-- Output: see arrived; see describe. For a task in a waitlist also: its flow and class; when it was promoted, or 0; the
-- number of promoted tasks ahead; how many of them follow, all or none, and the tokens of each; its rank in its class
-- from 1, or 0; the lanes: see addLanes.
local task, most, answer = ARGV[2], tonumber(ARGV[3]), {}
arrived(task, answer)
local state, bucket = answer[1], answer[2]
describe(bucket, answer)
if state == "0" then
	return answer
end
local record, flow = read(bucket, task), redis.call("HGET", root .. "task:" .. task, "flow") or ""
if not record then -- it has just expired
	answer[1] = "0"
	return answer
end
local queue, id = split(task)
local promoted = root .. "promoted:" .. bucket
local since = tonumber(redis.call("ZSCORE", promoted, task) or 0)
local last = since > 0 and "(" .. whole(since) or "+inf"
local ahead, rank = redis.call("ZCOUNT", promoted, "-inf", last), 0
add(answer, flow, record.class, whole(since), tostring(ahead))
local before = ahead <= most and redis.call("ZRANGEBYSCORE", promoted, "-inf", last) or {}
add(answer, tostring(#before))
for _, other in ipairs(before) do
	add(answer, redis.call("HGET", root .. "task:" .. other, "tokens") or "{}")
end
if state == "1" then
	rank = 1
	for _, lane in ipairs(redis.call("SMEMBERS", root .. "queues:" .. bucket)) do
		local other, class = parts(lane)
		if class ~= record.class then
			-- another class has its own turns
		elseif other == queue then
			rank = rank + (redis.call("ZRANK", listOf(bucket, lane), id) or 0)
		else -- of two equal tags, the smaller queue name is first
			rank = rank + redis.call("ZCOUNT", listOf(bucket, lane), "-inf", (other < queue and "" or "(") .. exact(record.tag))
		end
	end
end
add(answer, tostring(rank))
addLanes(answer, bucket, state == "1" and most + 1 or 1, {})
addTask(answer, task, record, whole(since))
return answer
