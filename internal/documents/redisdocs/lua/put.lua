-- Writes documents, each if it has still the version that was read, and deletes some that have expired.
--
-- KEYS[1] keys: sorted set of all keys, by their bytes
-- KEYS[2] index: sorted set of the places of documents, by their bytes
-- KEYS[3] heads, KEYS[4] bodies: hashes by key
-- KEYS[5] ends: sorted set of the keys of documents that expire, by their last millisecond
-- ARGV    for each document: its key, the old version, the new head, what becomes of the body, the body
-- Output: for each document 1 if it was written, 0 if it has another version
--
-- A head begins with the version (26 characters), the end in milliseconds (15), and the size of the body (10). The
-- length of the place in the index (5) and the place follow, and then the content.

local function placeOf(head)
  local length = tonumber(string.sub(head, 52, 56))
  return string.sub(head, 57, 56 + length)
end

local function forget(key, head)
  local place = placeOf(head)
  if place ~= "" then
    redis.call("ZREM", KEYS[2], place)
  end
end

local sweep = 16
local written = {}
for i = 1, #ARGV, 5 do
  local key, old, new, fate, body = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4]
  local head = redis.call("HGET", KEYS[3], key)
  local version = head and string.sub(head, 1, 26) or ""
  if version ~= old then
    written[#written + 1] = 0
  else
    if head then
      forget(key, head)
    end
    redis.call("HSET", KEYS[3], key, new)
    redis.call("ZADD", KEYS[1], 0, key)
    local place = placeOf(new)
    if place ~= "" then
      redis.call("ZADD", KEYS[2], 0, place)
    end
    local last = tonumber(string.sub(new, 27, 41))
    if last > 0 then
      redis.call("ZADD", KEYS[5], last, key)
    else
      redis.call("ZREM", KEYS[5], key)
    end
    if fate == "set" then
      redis.call("HSET", KEYS[4], key, body)
    elseif fate == "delete" then
      redis.call("HDEL", KEYS[4], key)
    end
    written[#written + 1] = 1
    sweep = sweep + 1
  end
end

local time = redis.call("TIME")
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for _, key in ipairs(redis.call("ZRANGEBYSCORE", KEYS[5], "-inf", now, "LIMIT", 0, sweep)) do
  local head = redis.call("HGET", KEYS[3], key)
  if head then
    forget(key, head)
  end
  redis.call("HDEL", KEYS[3], key)
  redis.call("HDEL", KEYS[4], key)
  redis.call("ZREM", KEYS[1], key)
  redis.call("ZREM", KEYS[5], key)
end
return written
