-- places are where tasks wait, for the scripts that move them.

local function idle(bucket)
	return redis.call("EXISTS", root .. "parts:" .. bucket) + redis.call("EXISTS", root .. "promoted:" .. bucket) == 0
end

-- tidy ends the planning for an idle bucket, and returns whether it is idle. All turns are forgotten.
local function tidy(bucket)
	if not idle(bucket) then
		return false
	end
	local meta = root .. "meta:" .. bucket
	for _, field in ipairs(redis.call("HKEYS", meta)) do
		local kind, class = string.match(field, "^(%a+):(.*)$")
		if kind == "turn" or kind == "virtual" then
			redis.call("HDEL", meta, field)
			redis.call("DEL", under("turns", bucket, class))
		end
	end
	redis.call("HDEL", meta, "virtual")
	redis.call("DEL", root .. "sums:" .. bucket, root .. "waiting:" .. bucket, root .. "tags:" .. bucket)
	redis.call("ZREM", KEYS[1], bucket)
	redis.call("PEXPIRE", meta, 600000)
	return true
end

-- place reads the text of a place: reserved ("1" or "0"), tag and back. It returns nil for a malformed text.
local function place(text)
	local reserved, tag, back = string.match(text or "", "^([01]) (%S+) (%S+)$")
	tag, back = tonumber(tag), tonumber(back)
	if not tag or not back or tag ~= tag or back ~= back then
		return nil
	end
	return reserved, tag, back
end
local function placed(reserved, tag, back) return reserved .. " " .. exact(tag) .. " " .. whole(back) end

-- fields is what is stored of a task. read is the same with its queue, its id, and its place in the bucket that it is
-- in: nil if it is in none. The record is malformed if its place can't be read.
local function fields(task)
	local record, all = {}, redis.call("HGETALL", root .. "task:" .. task)
	for i = 1, #all, 2 do
		record[all[i]] = all[i + 1]
	end
	return record
end

local function read(task)
	local record = fields(task)
	if not record.bucket then
		return nil
	end
	record.queue, record.id = split(task)
	record.class, record.tenant, record.flow = record.class or "", record.tenant or "", record.flow or ""
	record.reserved, record.tag, record.back = place(record["in:" .. record.bucket])
	record.malformed = not record.reserved
	return record
end

local function listOf(r)
	if r.back ~= 0 then
		return under("list", r.bucket, r.queue)
	end
	return under("list", r.bucket, r.queue, r.class, r.tenant)
end

local function waits(r) return not r.malformed and redis.call("ZSCORE", listOf(r), r.id) end

-- grow adds to the number of waiting tasks of the part of a task.
local function grow(r, by)
	local key, part = root .. "parts:" .. r.bucket, r.back ~= 0 and r.queue or r.queue .. "\0" .. r.class
	local n = redis.pcall("HINCRBY", key, part, by)
	if type(n) == "table" then -- it was no number
		redis.call("HSET", key, part, "1")
		n = by
	end
	if n <= 0 then
		redis.call("HDEL", key, part)
	end
end

-- enlist puts a task into its list. A tenant without waiting tasks begins its turn at the latest beginning of another
-- one, or at the end of its last one.
local function enlist(r)
	local back = r.back ~= 0
	if redis.call("ZADD", listOf(r), back and whole(r.back) or exact(r.tag), r.id) == 1 then
		grow(r, 1)
	end
	local ring = under("ring", r.bucket, r.queue, r.class)
	if not back and not redis.call("ZSCORE", ring, r.tenant) then
		local virtual = number(redis.call("HGET", root .. "meta:" .. r.bucket, "virtual:" .. r.class))
		local ended = number(redis.call("ZSCORE", under("turns", r.bucket, r.class), r.tenant))
		redis.call("ZADD", ring, exact(math.max(virtual, ended)), r.tenant)
	end
end

-- unlist takes a task out of its list. It returns whether it was there, and whether others of its tenant wait in its
-- class. The flows of a tenant without waiting tasks are forgotten.
local function unlist(r)
	local list = listOf(r)
	if redis.call("ZREM", list, r.id) == 0 then
		return false
	end
	grow(r, -1)
	if r.back ~= 0 or redis.call("EXISTS", list) == 1 then
		return true, true
	end
	redis.call("ZREM", under("ring", r.bucket, r.queue, r.class), r.tenant)
	for _, part in ipairs(redis.call("HKEYS", root .. "parts:" .. r.bucket)) do
		local queue, class = parts(part)
		if class == r.class and redis.call("EXISTS", under("list", r.bucket, queue, class, r.tenant)) == 1 then
			return true, true
		end
	end
	redis.call("DEL", under("flows", r.bucket, r.class, r.tenant))
	redis.call("HDEL", root .. "tags:" .. r.bucket, r.class .. "\0" .. r.tenant)
	return true, false
end

-- whose is the flow of a task in waiting:BUCKET.
local function whose(r) return r.tenant == "" and r.flow or r.tenant .. "\0" .. r.flow end

-- charge adds a task and its tokens, times sign, to the sums of its bucket.
local function charge(r, sign)
	local known, tokens = pcall(cjson.decode, r.tokens)
	local sums = root .. "sums:" .. r.bucket
	for meter, n in pairs(known and type(tokens) == "table" and tokens or {}) do
		if type(meter) == "string" and type(n) == "number" and n >= 0 and n <= 1e15 then
			local sum = redis.pcall("HINCRBYFLOAT", sums, meter, exact(sign * n))
			if type(sum) == "table" and sum.err then -- the sum is no number
				redis.call("HSET", sums, meter, exact(sign * n))
			end
		end
	end
	if tonumber(redis.call("ZINCRBY", root .. "waiting:" .. r.bucket, sign, whose(r))) <= 0 then
		redis.call("ZREM", root .. "waiting:" .. r.bucket, whose(r))
	end
end

-- withdraw removes a task from its list or from the promoted tasks of its bucket. It returns its record.
local function withdraw(task)
	local r = read(task)
	if r and (not r.malformed and unlist(r) or redis.call("ZREM", root .. "promoted:" .. r.bucket, task) == 1) then
		charge(r, -1)
	end
	return r
end

-- open prepares the data of a bucket in which a task waits.
local function open(bucket)
	redis.call("HSETNX", root .. "meta:" .. bucket, "since", whole(now))
	redis.call("PERSIST", root .. "meta:" .. bucket)
end

-- fresh is the tag of a new task of the flow: the larger of the largest promoted tag of its tenant and the end of the
-- flow. behind moves that end on.
local function fresh(r)
	local tag = number(redis.call("HGET", root .. "tags:" .. r.bucket, r.class .. "\0" .. r.tenant))
	return math.max(tag, number(redis.call("ZSCORE", under("flows", r.bucket, r.class, r.tenant), r.flow)))
end
local function behind(r)
	local tag = fresh(r)
	redis.call("ZADD", under("flows", r.bucket, r.class, r.tenant), exact(tag + number(r.cost)), r.flow)
	return tag
end

-- arrived is what the waitlists hold of a task: its state (see State), its bucket, info, and the buckets in which it has
-- a place, with whether it is reserved there.
local function arrived(task)
	local held, r = {}, read(task)
	for field, text in pairs(r or fields(task)) do
		if string.sub(field, 1, 3) == "in:" then
			held[#held + 1] = {bucket = string.sub(field, 4), reserved = place(text) == "1"}
		end
	end
	if not r then
		return {state = 0, held = some(held)}
	end
	local waiting = waits(r) or redis.call("ZSCORE", root .. "timers", "a" .. task)
	return {state = waiting and 1 or 2, bucket = r.bucket, info = r.info, held = some(held)}
end
