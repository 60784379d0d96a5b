-- mend deletes keys of the waitlists whose type is not that of their kind. It looks at one page of all keys of Redis.
--
--	KEYS    -> as for the other scripts.
--	ARGV[1] -> root.
--	ARGV[2] -> where the page begins, 0 for the first one.
--
-- Output: where the next page begins, 0 after the last one.
local root, kinds = ARGV[1], {
	index = "zset", failed = "zset", dispatcher = "hash", timers = "zset", list = "zset", parts = "hash", ring = "zset",
	turns = "zset", tags = "hash", promoted = "zset", meta = "hash", flows = "zset", waiting = "zset", sums = "hash",
	task = "hash", caller = "string", kept = "hash",
}
local page = redis.call("SCAN", ARGV[2], "MATCH", root .. "*", "COUNT", 1000)
for _, key in ipairs(page[2]) do
	local kind = kinds[string.match(key, "^(%a+)", #root + 1)]
	if kind and redis.call("TYPE", key).ok ~= kind then
		redis.call("DEL", key)
	end
end
return page[1]
