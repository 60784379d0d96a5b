-- promote promotes tasks, and plans the next looks. It does nothing for a process that is not on duty.
if redis.call("HGET", KEYS[3], "id") ~= arg.id then
	return "{}"
end
local promoted = {}
for _, plan in ipairs(arg.plans or {}) do
	local bucket, planned = plan.bucket, tonumber(plan.planned)
	advance(bucket, plan.tasks or {}, promoted)
	local entry = redis.call("ZSCORE", KEYS[1], bucket)
	if not tidy(bucket) and (not entry or tonumber(entry) == planned and planned > now) then
		local at = now + (plan.next > 0 and plan.next or arg.begin)
		local oldest = redis.call("ZRANGE", root .. "promoted:" .. bucket, 0, 0, "WITHSCORES")
		if #oldest > 0 then
			at = math.min(at, tonumber(oldest[2]) + arg.begin)
		end
		redis.call("ZADD", KEYS[1], whole(at), bucket)
	end
end
return cjson.encode({on_duty = true, promoted = some(promoted)})
