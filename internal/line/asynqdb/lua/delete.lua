-- delete deletes tasks of one queue that wait. The pending list is read once for all of them, from the first
-- of them on, because asynq's own way reads it once for each.
--
--	KEYS[1] -> asynq's pending list.
--	KEYS[2] -> asynq's scheduled set.
--	KEYS[3] -> asynq's retry set.
--	ARGV[1] -> prefix of asynq's task keys.
--	ARGV[2] -> bytes of messages after which no further task is read.
--	then the IDs of the tasks.
--
-- Output: how many of the IDs were read. Then, for each deleted task, its ID and asynq's message.
local answer, left, read = {}, tonumber(ARGV[2]), 0
local wanted, listed, first = {}, 0, nil
for i = 3, #ARGV do
	if left <= 0 then
		break
	end
	read = read + 1
	local id, key = ARGV[i], ARGV[1] .. ARGV[i]
	local t = redis.call("HMGET", key, "state", "msg", "unique_key")
	local waits = t[1] == "pending"
	if waits and not wanted[id] then
		wanted[id], listed, first = true, listed + 1, first or id
	elseif t[1] == "scheduled" or t[1] == "retry" then
		redis.call("ZREM", KEYS[t[1] == "scheduled" and 2 or 3], id)
		waits = true
	end
	if waits then
		if t[3] and t[3] ~= "" and redis.call("GET", t[3]) == id then
			redis.call("DEL", t[3])
		end
		redis.call("DEL", key)
		answer[#answer + 1] = id
		answer[#answer + 1] = t[2] or ""
		left = left - #(t[2] or "")
	end
end

-- Marked tasks are removed together, from the right: there the oldest tasks are.
local mark, marked = "headway:deleted", 0
local function pass(from, to)
	while from >= to and marked < listed do
		local low = math.max(to, from - 499)
		local ids = redis.call("LRANGE", KEYS[1], low, from)
		for i = #ids, 1, -1 do
			if wanted[ids[i]] then
				redis.call("LSET", KEYS[1], low + i - 1, mark)
				marked = marked + 1
			end
		end
		from = low - 1
	end
end
if listed > 0 then
	local last = redis.call("LLEN", KEYS[1]) - 1
	local at = math.min(last, (redis.call("LPOS", KEYS[1], first, "RANK", -1) or last) + #ARGV)
	pass(at, 0) -- #ARGV: tasks that were enqueued together are close to each other, in any order
	pass(last, at + 1)
	if marked > 0 then
		redis.call("LREM", KEYS[1], -marked, mark)
	end
end
table.insert(answer, 1, tostring(read))
return answer
