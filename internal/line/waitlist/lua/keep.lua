-- keep stores the places of a caller, for the retry of its call. If the caller does not leave, they count once its
-- process is dead.
local key, places = root .. "kept:" .. arg.call, {}
for field, text in pairs(fields(arg.task)) do
	if string.sub(field, 1, 3) == "in:" then
		places[#places + 1], places[#places + 2] = field, text
	end
end
if #places > 0 then
	redis.call("DEL", key)
	redis.call("HSET", key, unpack(places))
	if not arg.leaves then
		redis.call("HSET", key, "owner", arg.task)
	end
	redis.call("PEXPIRE", key, arg.expiry)
end
return "{}"
