-- on_duty changes nothing.
--
-- Output: now; the id of the process on duty or ""; the end of its duty or 0.
local id, ends = unpack(redis.call("HMGET", KEYS[3], "id", "until"))
if not id or number(ends) <= now then
	return {whole(now), "", "0"}
end
return {whole(now), id, whole(number(ends))}
