package waitlist

import (
	"context"
	"net/url"
	"time"
)

// lookScript takes or renews the duty and returns the due buckets. It plans the next look at each of them for the end
// of the lease. So any change after this look also changes the plan. The clock may run back by more than a second
// after the last look: then every bucket is due, its last answer is deleted, and the duty is free.
//
//	ARGV[2]    -> id of the caller.
//	ARGV[3]    -> the longest rest, in microseconds, as are all times.
//	ARGV[4]    -> the lease.
//	ARGV[5]    -> the most heads of a bucket.
//	ARGV[6]    -> the most promoted tasks of a bucket.
//	ARGV[7]    -> how long a promoted task has to begin.
//	ARGV[8]    -> how many buckets to look at.
//	ARGV[9...] -> escaped names of paused queues.
//
// Output: now; "1" on duty; "1" took over; rest; number of buckets; number of rung tasks; the rung tasks (see ring).
// For each bucket: bucket; planned; state; offset; "1" failed; number of promoted tasks; how many of them follow;
// these tasks; number of heads; the heads; "1" if other tasks wait behind them. For each task: task; tag; tokens; "1"
// urgent; "1" reserved; when it was promoted.
const lookScript = ring + `
local id, rest, lease, retry = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[7])
local most, promotedMost, paused = tonumber(ARGV[5]), tonumber(ARGV[6]), {}
for i = 9, #ARGV do
	paused[ARGV[i]] = true
end
local duty, ends, last = unpack(redis.call("HMGET", KEYS[3], "id", "until", "now"))
if last and now < number(last) - 1000000 then -- the clock ran back: plans and offsets are wrong
	ends = 0
	for _, bucket in ipairs(redis.call("ZRANGE", KEYS[1], 0, -1)) do
		redis.call("ZADD", KEYS[1], whole(now), bucket)
		redis.call("HDEL", root .. "meta:" .. bucket, "state", "generation", "version", "offset")
	end
end
if duty and duty ~= id and number(ends) > now then
	return {whole(now), "0", "0", whole(number(ends) - now), "0", "0"}
end

local answer, seen = {whole(now), "1", duty == id and "0" or "1", "", ""}, 0
local function add(...)
	for _, text in ipairs({...}) do
		answer[#answer + 1] = text
	end
end
local timer, rung = nextTimer(), {}
if timer and timer <= now then
	rung = ring(most)
	timer = nextTimer()
end
add(tostring(#rung), unpack(rung))

-- retried puts promoted tasks that did not begin in time back into their lists.
local function retried(bucket)
	local promoted = root .. "promoted:" .. bucket
	for _, task in ipairs(redis.call("ZRANGEBYSCORE", promoted, "-inf", whole(now - retry), "LIMIT", 0, 1000)) do
		local queue, id = split(task)
		local record = read(bucket, task)
		redis.call("ZREM", promoted, task)
		if record then
			enlist(bucket, with(queue, record.class), id, record.tag)
		end
	end
end

local function addTask(task, record, since)
	add(task, exact(record.tag), record.tokens, record.urgent, record.reserved, since)
end

local function addPromoted(bucket)
	local promoted = redis.call("ZRANGE", root .. "promoted:" .. bucket, 0, promotedMost - 1, "WITHSCORES")
	add(tostring(redis.call("ZCARD", root .. "promoted:" .. bucket)), "0")
	local number, found = #answer, 0
	for i = 1, #promoted, 2 do
		local record = read(bucket, promoted[i])
		if record then
			addTask(promoted[i], record, whole(tonumber(promoted[i + 1])))
			found = found + 1
		end
	end
	answer[number] = tostring(found)
	seen = seen + found
end

-- addHeads returns true if it found tasks without a record: they leave the list, and the bucket stays due.
local function addHeads(bucket)
	add("0")
	local number, found, lost = #answer, 0, {}
	local others = first(bucket, most, paused, function(head)
		if head.record then
			addTask(head.task, head.record, "0")
			found = found + 1
		else
			lost[#lost + 1] = head
		end
	end)
	for _, head in ipairs(lost) do
		unlist(bucket, head.lane, head.id)
	end
	answer[number] = tostring(found)
	add(others > 0 and "1" or "0")
	seen = seen + found + #lost
	return #lost > 0
end

local looked, numbers, again, next = {}, 0, false, nextLook()
local due = next and next <= now and redis.call("ZRANGEBYSCORE", KEYS[1], "-inf", whole(now), "LIMIT", 0, ARGV[8]) or {}
for _, bucket in ipairs(due) do
	if seen >= 2 * (most + promotedMost) then
		break
	end
	local state, offset, failed = unpack(redis.call("HMGET", root .. "meta:" .. bucket, "state", "offset", "failed_until"))
	if failed and number(failed) > now then
		redis.call("ZADD", KEYS[1], whole(number(failed)), bucket)
	elseif not tidy(bucket) then
		retried(bucket)
		add(bucket, "0", state or "", whole(number(offset)), failed and "1" or "0")
		local planned = #answer - 3
		addPromoted(bucket)
		if addHeads(bucket) then
			again = true
		else
			answer[planned] = whole(now + lease)
			redis.call("ZADD", KEYS[1], answer[planned], bucket)
		end
		looked[bucket], numbers = true, numbers + 1
	end
end

if #due > 0 then
	next = nil
	local index = redis.call("ZRANGE", KEYS[1], 0, numbers, "WITHSCORES")
	for i = 1, #index, 2 do
		if not looked[index[i]] then
			next = tonumber(index[i + 1])
			break
		end
	end
end
rest = again and 0 or math.max(0, math.min(rest, (next or math.huge) - now, (timer or math.huge) - now))
redis.call("HSET", KEYS[3], "id", id, "until", whole(now + rest + lease), "retry", ARGV[7], "now", whole(now))
if duty ~= id then -- not at each look, to save a command; after an hour the same process takes over again
	redis.call("PEXPIRE", KEYS[3], 3600000 + math.ceil((rest + lease) / 1000))
end
answer[4], answer[5] = whole(rest), tostring(numbers)
return answer
`

// dueMost is the largest number of buckets that one look returns.
const dueMost = 64

// Duty describes a process that is the dispatcher, or may become it.
type Duty struct {
	// ID is unique in the fleet.
	ID string
	// Rest is the longest time until the dispatcher looks again.
	Rest time.Duration
	// Lease is the time after its next look at which the dispatcher counts as dead. If no Promote follows a look at a
	// bucket, the bucket is due again after the lease.
	Lease time.Duration
	// Heads is the largest number of waiting tasks of a bucket that a look returns, Promoted that of promoted tasks.
	Heads, Promoted int
	// Retry is the time after which a promoted task that has not begun goes back to its place.
	Retry time.Duration
}

// Look is the result of one look of the dispatcher.
type Look struct {
	// Now is the clock of Redis, as are all times of the package unless their comments name another clock.
	Now time.Time
	// OnDuty is true if the caller is the dispatcher. If it is false, Rest is the time until that may change, and Due
	// is empty.
	OnDuty bool
	// TookOver is true if the caller became the dispatcher with this look.
	TookOver bool
	// Rest is the time until the next look at a bucket that is not in Due. It is at most Duty.Rest.
	Rest time.Duration
	// Rung are tasks whose timers were due, at most Duty.Heads of them. Rest is zero if other timers are due.
	Rung []Rung
	// Due lists the buckets to plan now. They are at most 64, and the list ends after 2*(Duty.Heads+Duty.Promoted)
	// tasks. Rest is zero if other buckets are due.
	Due []Due
}

// Due is a bucket to plan now.
type Due struct {
	Bucket string
	// Planned identifies this look at the bucket. Promote needs it.
	Planned int64
	// State is from the last answer of the bucket. It is empty if there is none.
	State []byte
	// Offset is the store's clock less Redis's, as of the last answer.
	Offset time.Duration
	// Failed is true if the last request to the bucket failed.
	Failed bool
	// Promoted are the promoted tasks that have not begun, in the order of their promotion. PromotedCount counts all
	// of them, even beyond Duty.Promoted.
	Promoted      []Waiting
	PromotedCount int
	// Heads are the first waiting tasks of the queues that are not paused, in order of their tags. More is true if
	// other tasks wait behind them.
	Heads []Waiting
	More  bool
}

// Waiting is a task that waits or is promoted.
type Waiting struct {
	Task

	Tag              float64
	Tokens           map[string]float64
	Urgent, Reserved bool
	// Since is when the task was promoted. It is zero for a waiting task.
	Since time.Time
}

// Look takes or renews the duty and returns the due buckets. Pass each of them to Promote, even if none of its tasks
// is promoted. Promoted tasks of a due bucket that did not begin within Duty.Retry are back in their list. Look skips
// tasks of the paused queues.
func (w *Waitlist) Look(ctx context.Context, duty Duty, paused []string) (Look, error) {
	args := []any{
		duty.ID, duty.Rest.Microseconds(), duty.Lease.Microseconds(), max(1, duty.Heads), max(1, duty.Promoted),
		duty.Retry.Microseconds(), dueMost,
	}
	for _, queue := range paused {
		args = append(args, url.PathEscape(queue))
	}
	r, err := w.run(ctx, "look at the waitlists", w.scripts.look, args...)
	if err != nil {
		return Look{}, err
	}
	look := Look{Now: r.moment(), OnDuty: r.flag(), TookOver: r.flag(), Rest: r.duration()}
	buckets := r.count()
	look.Rung = r.rung()
	for range buckets {
		look.Due = append(look.Due, r.due())
	}
	if r.err != nil {
		return Look{}, r.err
	}
	return look, nil
}

func (r *reply) due() Due {
	d := Due{
		Bucket: r.text(), Planned: r.int(), State: []byte(r.text()), Offset: r.duration(), Failed: r.flag(),
		PromotedCount: r.count(),
	}
	d.Promoted = r.waiting()
	d.Heads = r.waiting()
	d.More = r.flag()
	return d
}

func (r *reply) waiting() (tasks []Waiting) {
	for range r.count() {
		name := r.text()
		w := Waiting{Tag: r.float(), Tokens: r.tokens(), Urgent: r.flag(), Reserved: r.flag(), Since: r.moment()}
		if task, err := ParseTask(name); err == nil { // else something else has put it there
			w.Task = task
			tasks = append(tasks, w)
		}
	}
	return tasks
}
