-- lists describes waitlists. It changes nothing.
local lists = {}
for i, bucket in ipairs(arg.buckets) do
	lists[i] = describe(bucket)
end
return cjson.encode({lists = some(lists)})
