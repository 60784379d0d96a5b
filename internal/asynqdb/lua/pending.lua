-- pending reads the head of the pending list of one queue, and the active tasks.
--
--	KEYS[1] -> asynq's pending list.
--	KEYS[2] -> exists while the queue is paused.
--	KEYS[3] -> asynq's list of active tasks: a task that is delivered is pushed on its left.
--	KEYS[4] -> the process that takes the backlog, and until when in milliseconds.
--	ARGV[1] -> prefix of asynq's task keys.
--	ARGV[2] -> largest number of tasks to read.
--	ARGV[3] -> smallest length of the list.
--	ARGV[4] -> bytes of messages after which no further task is read.
--	ARGV[5] -> largest number of woken tasks to skip.
--	ARGV[6] -> largest number of active tasks to read: the newest ones.
--	ARGV[7] -> this process.
--	ARGV[8] -> for how many milliseconds it takes the backlog.
--
-- Output: the number of active tasks, or -1 if another process takes the backlog. Then the ID and asynq's message of
-- each active task, the newest first, and of each pending task, in the order of delivery.
local time = redis.call("TIME")
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local owner, till = string.match(redis.call("GET", KEYS[4]) or "", "^(%S+) (%d+)$")
if redis.call("EXISTS", KEYS[2]) == 1 or redis.call("LLEN", KEYS[1]) < tonumber(ARGV[3]) then
	if owner == ARGV[7] then
		redis.call("DEL", KEYS[4])
	end
	return {"0"}
end
if owner and owner ~= ARGV[7] and tonumber(till) > now then
	return {"-1"}
end
redis.call("SET", KEYS[4], ARGV[7] .. " " .. string.format("%.0f", now + tonumber(ARGV[8])), "PX", ARGV[8])

-- read adds tasks of a state to the answer.
local answer = {"0"}
local function read(ids, from, to, step, state)
	local left = tonumber(ARGV[4])
	for i = from, to, step do
		if left <= 0 then
			break
		end
		local t = redis.call("HMGET", ARGV[1] .. ids[i], "state", "msg", "group", "headway_left",
			"headway_woken", "pending_since")
		if t[1] == state and t[2] and (not t[3] or t[3] == "") and not t[4] and not woken(t[5], t[6]) then
			answer[#answer + 1] = ids[i]
			answer[#answer + 1] = t[2]
			left = left - #t[2]
		end
	end
end

local newest = redis.call("LRANGE", KEYS[3], 0, tonumber(ARGV[6]) - 1)
read(newest, 1, #newest, 1, "active")
answer[1] = tostring((#answer - 1) / 2)
local n = wokenBefore(tonumber(ARGV[5]))
local next = redis.call("LRANGE", KEYS[1], -n - tonumber(ARGV[2]), -n - 1)
read(next, #next, 1, -1, "pending")
return answer
