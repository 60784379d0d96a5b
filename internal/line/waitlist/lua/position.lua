-- position reads what stands before a task. It changes nothing.
local answer, r = arrived(arg.task), read(arg.task)
answer.list = describe(r and r.bucket or "")
if not r or r.malformed then
	answer.state, answer.bucket, answer.info, answer.held = 0, nil, nil, nil
	return cjson.encode(answer)
end
local promoted = root .. "promoted:" .. r.bucket
local since = tonumber(redis.call("ZSCORE", promoted, arg.task) or 0)
local last = since > 0 and "(" .. whole(since) or "+inf"
answer.own, answer.flow, answer.class, answer.tenant = shown(arg.task, r, since), r.flow, r.class, r.tenant
answer.ahead = redis.call("ZCOUNT", promoted, "-inf", last)
if answer.ahead <= arg.most then
	local tokens = {}
	for i, other in ipairs(redis.call("ZRANGEBYSCORE", promoted, "-inf", last)) do
		tokens[i] = redis.call("HGET", root .. "task:" .. other, "tokens") or "{}"
	end
	answer.known = some(tokens)
end
if answer.state == 1 then
	local score = r.back ~= 0 and whole(r.back) or exact(r.tag)
	answer.rank = redis.call("ZRANK", listOf(r), r.id) or 0
	for _, part in ipairs(redis.call("HKEYS", root .. "parts:" .. r.bucket)) do
		local queue, class = parts(part)
		if queue ~= r.queue and (r.back ~= 0 and not class or r.back == 0 and class == r.class) then
			local other = {bucket = r.bucket, queue = queue, class = r.class, tenant = r.tenant, back = r.back}
			-- of two equal tags, the smaller queue name is first
			answer.rank = answer.rank + redis.call("ZCOUNT", listOf(other), "-inf", (queue < r.queue and "" or "(") .. score)
		end
	end
	answer.waiting = lanes(r.bucket, arg.most + 1, {})
end
return cjson.encode(answer)
