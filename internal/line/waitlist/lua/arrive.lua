-- arrive reads what the waitlists hold of delivered tasks, and how many tasks wait for their buckets: all, and those of
-- the class behind which a task waits there.
local counts, answer = {}, {}
local function counted(bucket, class)
	local key = bucket .. "\0" .. class
	counts[key] = counts[key] or count(bucket, class)
	return counts[key]
end
for i, one in ipairs(arg.tasks) do
	local waiting, before = {}, {}
	for j, bucket in ipairs(one.buckets or {}) do
		waiting[j] = counted(bucket, "")
		before[j] = one.classes and counted(bucket, one.classes[j])
	end
	answer[i] = arrived(one.task)
	answer[i].waiting, answer[i].before = some(waiting), one.classes and some(before)
end
return cjson.encode({arrived = some(answer)})
