-- resign ends the duty of the caller.
if redis.call("HGET", KEYS[3], "id") == arg.id then
	redis.call("DEL", KEYS[3])
	redis.pcall("PUBLISH", root .. "wake", "-1")
end
return "{}"
