-- on_duty says which process is on duty, and until when. It changes nothing.
local id, ends = unpack(redis.call("HMGET", KEYS[3], "id", "until"))
if not id or number(ends) <= now then
	return cjson.encode({now = whole(now), ["until"] = "0"})
end
return cjson.encode({now = whole(now), id = id, ["until"] = whole(number(ends))})
