package waitlist

import (
	"context"
	"time"
)

// positionScript returns where a task stands. It changes nothing.
//
//	ARGV[2] -> task
//	ARGV[3] -> how many tasks ahead are read for their tokens
//
// Output: see arrived; see describe. Of a task in a waitlist also: tag, tokens, "1" urgent, "1" reserved, when it
// was promoted or 0, its rank from 1 or 0, "1" if the tokens ahead are exact, number of meters, for each its name
// and tokens.
const positionScript = `
local task, most, answer = ARGV[2], tonumber(ARGV[3]), {}
arrived(task, answer)
local state, bucket = answer[1], answer[2]
describe(bucket, answer)
if state == "0" then
	return answer
end
local tokens, urgent, inside = unpack(redis.call("HMGET", root .. "task:" .. task, "tokens", "urgent", "in:" .. bucket))
local tag, reserved = place(inside)
local queue, id = split(task)
local promoted = root .. "promoted:" .. bucket
local since = tonumber(redis.call("ZSCORE", promoted, task) or 0)
local ahead, ranks = redis.call("ZCARD", promoted), {}
local rank = 0
if state == "1" then
	for _, other in ipairs(redis.call("SMEMBERS", root .. "queues:" .. bucket)) do
		local list = listOf(bucket, other)
		if other == queue then
			ranks[list] = {other, redis.call("ZRANK", list, id) or 0}
		else -- of the same tag, the one whose queue sorts first
			ranks[list] = {other, redis.call("ZCOUNT", list, "-inf", (other < queue and "" or "(") .. exact(tag))}
		end
		rank = rank + ranks[list][2]
	end
	ahead, rank = ahead + rank, rank + 1
else
	ahead = redis.call("ZCOUNT", promoted, "-inf", "(" .. whole(since))
end

local sums, meters = {}, 0
local function add(meter, n)
	if not sums[meter] then
		meters = meters + 1
	end
	sums[meter] = (sums[meter] or 0) + n
end
local function read(other)
	for meter, n in pairs(cjson.decode(redis.call("HGET", root .. "task:" .. other, "tokens") or "{}")) do
		add(meter, n)
	end
end
if ahead <= most then
	local before = "+inf"
	if state == "2" then
		before = "(" .. whole(since)
	end
	for _, other in ipairs(redis.call("ZRANGEBYSCORE", promoted, "-inf", before)) do
		read(other)
	end
	for list, of in pairs(ranks) do
		if of[2] > 0 then
			for _, other in ipairs(redis.call("ZRANGE", list, 0, of[2] - 1)) do
				read(of[1] .. "/" .. other)
			end
		end
	end
else
	local all = count(bucket) + redis.call("ZCARD", promoted)
	local kept = redis.call("HGETALL", root .. "sums:" .. bucket)
	for i = 1, #kept, 2 do
		add(kept[i], tonumber(kept[i + 1]) / all * ahead)
	end
end
for _, text in ipairs({
	exact(tag), tokens, urgent, reserved, whole(since), tostring(rank), ahead <= most and "1" or "0", tostring(meters),
}) do
	answer[#answer + 1] = text
end
for meter, n in pairs(sums) do
	answer[#answer + 1] = meter
	answer[#answer + 1] = exact(n)
end
return answer
`

// exactMost is how many tasks ahead are read one by one.
const exactMost = 500

// Position is where a task stands, for people.
type Position struct {
	Arrived

	// List is that of Arrived.Bucket. It is empty but for Now if the task is in no waitlist.
	List List
	// Tag is the task's place in the order of its bucket, Tokens what it charges there, Since when it was promoted.
	Tag              float64
	Tokens           map[string]float64
	Urgent, Reserved bool
	Since            time.Time
	// Rank counts from 1, over all queues of the bucket, also paused ones; zero for a task that does not wait.
	Rank int
	// TokensAhead is what the tasks before this one charge that have not begun, the promoted ones among them. It is
	// exact for at most 500 such tasks, and else their number times the average of the whole list.
	TokensAhead map[string]float64
	Exact       bool
}

// Position returns where the task stands. It changes nothing and never reads the whole list.
func (w *Waitlist) Position(ctx context.Context, task Task) (Position, error) {
	r, err := w.run(ctx, "look up the position of "+task.String(), w.scripts.position, task.String(), exactMost)
	if err != nil {
		return Position{}, err
	}
	p := Position{Arrived: r.arrived()}
	p.List = r.list(p.Bucket)
	if p.State != StateNew {
		p.Tag, p.Tokens, p.Urgent, p.Reserved, p.Since = r.float(), r.tokens(), r.flag(), r.flag(), r.moment()
		p.Rank, p.Exact, p.TokensAhead = r.count(), r.flag(), r.sums()
	}
	return p, r.err
}
