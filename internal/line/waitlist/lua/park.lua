-- park removes tasks from the promoted tasks.
for _, task in ipairs(arg.tasks) do
	local r = read(task)
	if r and redis.call("ZREM", root .. "promoted:" .. r.bucket, task) == 1 then
		charge(r, -1)
		tidy(r.bucket)
	end
end
return "{}"
