-- position returns the place of a task. It changes nothing.
--
--	ARGV[2] -> task
--	ARGV[3] -> the largest number of tasks ahead whose tokens are read
--
-- Output: see arrived; see describe. For a task in a waitlist also: tag; tokens; "1" urgent; "1" reserved; flow;
-- class; when it was promoted, or 0; its rank from 1, or 0; "1" if the rank and the tokens ahead are exact; number of
-- meters; the name and tokens of each.
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
local ahead, before, rank, exactly = redis.call("ZCARD", promoted), {}, 0, true
if state == "1" then
	local found, own = false, 0
	first(bucket, most + 1, {}, function(head)
		rank, found = rank + 1, head.task == task
		if not found then
			before[#before + 1] = head.task
			if head.record and head.record.class == record.class then
				own = own + 1
			end
		end
		return found
	end)
	if not found then -- the rank in its class is exact; the rank among other classes is extrapolated
		local mine = 1
		for _, lane in ipairs(redis.call("SMEMBERS", root .. "queues:" .. bucket)) do
			local other, class = parts(lane)
			if class ~= record.class then
				-- another class has its own turns
			elseif other == queue then
				mine = mine + (redis.call("ZRANK", listOf(bucket, lane), id) or 0)
			else -- of two equal tags, the smaller queue name is first
				local below = (other < queue and "" or "(") .. exact(record.tag)
				mine = mine + redis.call("ZCOUNT", listOf(bucket, lane), "-inf", below)
			end
		end
		rank = math.floor(math.min(mine * rank / math.max(own, 1), count(bucket)))
		exactly = false
	end
	ahead = ahead + rank - 1
	exactly = exactly and ahead <= most
else
	ahead = redis.call("ZCOUNT", promoted, "-inf", "(" .. whole(since))
	exactly = ahead <= most
end

local sums = {}
local function sum(meter, n)
	sums[meter] = (sums[meter] or 0) + n
end
local function charged(other)
	eachMeter(redis.call("HGET", root .. "task:" .. other, "tokens"), sum)
end
if exactly then
	local last = state == "2" and "(" .. whole(since) or "+inf"
	for _, other in ipairs(redis.call("ZRANGEBYSCORE", promoted, "-inf", last)) do
		charged(other)
	end
	for _, other in ipairs(before) do
		charged(other)
	end
else
	local all = count(bucket) + redis.call("ZCARD", promoted)
	local kept = redis.call("HGETALL", root .. "sums:" .. bucket)
	for i = 1, #kept, 2 do
		sum(kept[i], number(kept[i + 1]) / all * ahead)
	end
end
add(answer, exact(record.tag), record.tokens, record.urgent, record.reserved, flow, record.class, whole(since),
	tostring(rank), exactly and "1" or "0")
local meters = {}
for meter, n in pairs(sums) do
	add(meters, meter, exact(n))
end
addPairs(answer, meters)
return answer
