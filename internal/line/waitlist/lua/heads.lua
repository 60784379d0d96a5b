-- heads reads the first tasks of a waitlist, and the promoted ones. It changes nothing.
local answer = {promoted = some(redis.call("ZRANGE", root .. "promoted:" .. arg.bucket, 0, arg.most - 1))}
answer.waiting = lanes(arg.bucket, arg.most, {})
for _, lane in ipairs(answer.waiting.lanes or {}) do
	for _, head in ipairs(lane.heads or {}) do
		head.flow = redis.call("HGET", root .. "task:" .. head.task, "flow") or nil
	end
end
return cjson.encode(answer)
