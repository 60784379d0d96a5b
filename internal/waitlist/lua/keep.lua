-- keep stores the tags of a caller, for the retry of its call.
--
--	ARGV[2] -> the caller
--	ARGV[3] -> the name of the call
--	ARGV[4] -> how long to keep them, in milliseconds
--	ARGV[5] -> "1" if the caller leaves, "0" if it waits on: then its tags count once its process is dead
--
-- Output: nothing.
local task, key, fields = ARGV[2], root .. "kept:" .. ARGV[3], {}
local record = redis.call("HGETALL", root .. "task:" .. task)
for i = 1, #record, 2 do
	if string.sub(record[i], 1, 3) == "in:" then
		add(fields, record[i], record[i + 1])
	end
end
if #fields > 0 then
	if ARGV[5] == "0" then
		add(fields, "owner", task)
	end
	redis.call("DEL", key)
	redis.call("HSET", key, unpack(fields))
	redis.call("PEXPIRE", key, ARGV[4])
end
return {}
