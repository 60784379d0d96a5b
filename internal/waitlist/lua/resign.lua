-- resign ends the duty of the caller.
--
--	ARGV[2] -> id of the caller
--
-- Output: nothing.
if redis.call("HGET", KEYS[3], "id") == ARGV[2] then
	redis.call("DEL", KEYS[3])
	redis.pcall("PUBLISH", root .. "wake", "-1")
end
return {}
