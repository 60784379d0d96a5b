-- swap writes a bucket where nothing has changed and no other call is to be the first, and returns the clock. The next
-- call of the queue is then sent what load returns. Otherwise the call joins the queue: the script returns what load
-- does, and its place. The swap of a call at place 0 that follows is the next.
--
--	ARGV[1] -> the header that was loaded, empty if there was no bucket; "any" writes in any case, "none" never
--	ARGV[2] -> the epoch that was loaded
--	ARGV[3] -> the ID of the call, 16 characters, and the bucket
--	ARGV[4] -> milliseconds after which the bucket is forgotten
--	ARGV[5] -> queueKept, in milliseconds
--	ARGV[6] -> root
--	ARGV[7] -> the moment for which the bucket was decided
--	ARGV[8] -> "1" if the bucket was not loaded: then the call does not join the queue
local call = string.sub(ARGV[3], 1, 16)
local queue = redis.pcall("LRANGE", KEYS[2], 0, -1)
if queue.err or ARGV[1] == "any" and redis.call("PTTL", KEYS[2]) == -1 then -- none of these scripts has made it
	redis.call("DEL", KEYS[2])
	queue = {}
end
local place
for i, id in ipairs(queue) do
	if id == call then
		place = i - 1
	end
end
local first = #queue == 0 or place == 0
if ARGV[1] == "any" or (first and ARGV[1] == string.sub(stored, 1, 32) and ARGV[2] == epoch and
	tonumber(ARGV[7]) <= tonumber(now)) then
	stored = epoch .. ARGV[3]
	redis.call("SET", KEYS[1], stored, "PX", ARGV[4])
	if place == 0 then
		redis.call("LPOP", KEYS[2])
		redis.call("PEXPIRE", KEYS[2], ARGV[5])
	end
	if place == 0 and queue[2] then
		local state = ARGV[6] .. "state:" .. queue[2]
		redis.call("RPUSH", state, epoch .. now .. stored)
		redis.call("PEXPIRE", state, ARGV[5])
	end
	return {now}
end
if ARGV[8] == "1" then
	return {epoch .. now .. stored, 0}
end
if not place then
	place = #queue
	redis.call("RPUSH", KEYS[2], call)
	if place == 0 or redis.call("PTTL", KEYS[2]) == -1 then
		redis.call("PEXPIRE", KEYS[2], ARGV[5])
	end
end
return {epoch .. now .. stored, place}
