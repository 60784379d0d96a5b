-- guard is put around asynq's script, which has its own keys and arguments before these:
--
--	KEYS[-3]  -> asynq's pending list, or its scheduled set.
--	KEYS[-2]  -> hash of the unique keys of the queue: the ID of the last task of each.
--	KEYS[-1]  -> hash of the series of the queue: the last tick of each, as "milliseconds schedule".
--	ARGV[-6]  -> prefix of asynq's task keys.
--	ARGV[-5]  -> ID of the task.
--	ARGV[-4]  -> unique key, or empty.
--	ARGV[-3]  -> series, or empty.
--	ARGV[-2]  -> milliseconds of the tick.
--	ARGV[-1]  -> schedule.
--
-- Output: 0 for a refused task, or the ID of the task that has the key; else the output of asynq's script, and how many
-- servers wait for tasks of the queue.
--
-- Each new unique task also deletes two keys, drawn at random, whose tasks have ended. So the hash stays about as
-- long as the list of tasks that have not ended.
local unique, series = KEYS[#KEYS - 1], KEYS[#KEYS]
local prefix, id, key = ARGV[#ARGV - 5], ARGV[#ARGV - 4], ARGV[#ARGV - 3]
local name, tick, schedule = ARGV[#ARGV - 2], ARGV[#ARGV - 1], ARGV[#ARGV]
local function lives(task)
	local state = redis.call("HGET", prefix .. task, "state")
	return state and state ~= "completed" and state ~= "archived"
end
local function store()
	if name ~= "" then
		redis.call("HSET", series, name, tick .. " " .. schedule)
	end
end
local function enqueue()
-- asynq's script
end
if name ~= "" then
	local last = string.match(redis.call("HGET", series, name) or "", "^%d+")
	if last and tonumber(last) >= tonumber(tick) then
		return 0
	end
end
if key ~= "" then
	local holder = redis.call("HGET", unique, key)
	if holder and lives(holder) then
		store()
		return holder
	end
end
local n = enqueue()
store()
if n == 1 and string.find(KEYS[#KEYS - 2], ":pending$") then
	announce(KEYS[#KEYS - 2], 1)
end
if n == 1 and key ~= "" then
	redis.call("HSET", unique, key, id)
	local some = redis.pcall("HRANDFIELD", unique, 2)
	for i = 1, #some do
		if not lives(redis.call("HGET", unique, some[i])) then
			redis.call("HDEL", unique, some[i])
		end
	end
end
return {n, redis.call("SCARD", idleOf(string.sub(prefix, 1, -3) .. "pending"))}
