-- Reads the heads of a range.
--
-- KEYS[1] the sorted set that has the range: keys or index
-- KEYS[2] heads
-- ARGV    ZRANGEBYLEX or ZREVRANGEBYLEX, its bounds, how many, how many bytes of a member are before the key
-- Output: key, head, key, head, ...

local found = {}
for _, member in ipairs(redis.call(ARGV[1], KEYS[1], ARGV[2], ARGV[3], "LIMIT", 0, ARGV[4])) do
  local key = string.sub(member, ARGV[5] + 1)
  local head = redis.call("HGET", KEYS[2], key)
  if head then
    found[#found + 1] = key
    found[#found + 1] = head
  end
end
return found
