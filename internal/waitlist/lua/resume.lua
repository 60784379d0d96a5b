-- resume gives a caller that has not joined the tags that were stored for its call.
--
--	ARGV[2] -> the caller
--	ARGV[3] -> the name of the call
--	ARGV[4] -> how long to keep the record, in milliseconds
--
-- Output: "1" if it has tags now, else "0".
local task, key, tags = ARGV[2], root .. "kept:" .. ARGV[3], {}
local kept = redis.call("HGETALL", key)
for i = 1, #kept, 2 do
	if kept[i] == "owner" then
		local _, id = split(kept[i + 1])
		local process = string.match(id, "^([^/]+)/")
		if process and redis.call("EXISTS", root .. "caller:" .. process) == 1 then
			return {"0"} -- the call still waits
		end
	else
		local tag, _, epoch, cost, class = place(kept[i + 1])
		if tag then
			add(tags, kept[i], placed(epoch, "0", tag, cost, class))
		end
	end
end
if #tags == 0 then
	return {"0"}
end
redis.call("DEL", key)
redis.call("HSET", root .. "task:" .. task, unpack(tags))
redis.call("PEXPIRE", root .. "task:" .. task, ARGV[4])
return {"1"}
