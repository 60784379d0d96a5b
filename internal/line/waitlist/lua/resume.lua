-- resume gives a caller that has not joined the places that were stored for its call.
local key, places = root .. "kept:" .. arg.call, {}
local kept = redis.call("HGETALL", key)
for i = 1, #kept, 2 do
	if kept[i] == "owner" then
		local _, id = split(kept[i + 1])
		local process = string.match(id, "^([^/]+)/")
		if process and redis.call("EXISTS", root .. "caller:" .. process) == 1 then
			return "{}" -- the call still waits
		end
	else
		local reserved, tag, back = place(kept[i + 1])
		if reserved then
			places[#places + 1], places[#places + 2] = kept[i], placed("0", tag, back)
		end
	end
end
if #places == 0 then
	return "{}"
end
redis.call("DEL", key)
redis.call("HSET", root .. "task:" .. arg.task, unpack(places))
redis.call("PEXPIRE", root .. "task:" .. arg.task, arg.expiry)
return cjson.encode({resumed = true})
