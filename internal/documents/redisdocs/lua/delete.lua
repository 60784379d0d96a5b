-- Deletes a document that has a version.
--
-- KEYS    as for put
-- ARGV    its key, the version
-- Output: 1 if it was deleted, 0 otherwise

local head = redis.call("HGET", KEYS[3], ARGV[1])
if not head or string.sub(head, 1, 26) ~= ARGV[2] then
  return 0
end
local length = tonumber(string.sub(head, 52, 56))
if length > 0 then
  redis.call("ZREM", KEYS[2], string.sub(head, 57, 56 + length))
end
redis.call("HDEL", KEYS[3], ARGV[1])
redis.call("HDEL", KEYS[4], ARGV[1])
redis.call("ZREM", KEYS[1], ARGV[1])
redis.call("ZREM", KEYS[5], ARGV[1])
return 1
