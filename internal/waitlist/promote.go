package waitlist

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// promoteScript moves tasks from their lists to the promoted tasks, and plans the next looks. Times of promotion
// differ by a microsecond, so that they keep the order.
//
//	ARGV[2]    -> id of the caller
//	ARGV[3...] -> for each bucket: bucket, planned (from the look), microseconds until the next look or 0, number
//	              of tasks, the tasks
//
// Output: "1" on duty; the promoted tasks.
const promoteScript = `
local duty, retry = unpack(redis.call("HMGET", KEYS[3], "id", "retry"))
if duty ~= ARGV[2] then
	return {"0"}
end
local answer, i = {"1"}, 3
while i < #ARGV do
	local bucket, planned, next = ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
	local last = i + 3 + tonumber(ARGV[i + 3])
	local meta, promoted = root .. "meta:" .. bucket, root .. "promoted:" .. bucket
	local virtual, inner, outer = number(redis.call("HGET", meta, "virtual")), {}, {}
	local moment = math.max(now, 1 + tonumber(redis.call("ZRANGE", promoted, -1, -1, "WITHSCORES")[2] or 0))
	for j = i + 4, last do
		local _, id = split(ARGV[j])
		local lane, tag, reserved, epoch, cost, class = laneIn(bucket, ARGV[j])
		if lane and unlist(bucket, lane, id) then
			redis.call("ZADD", promoted, whole(moment), ARGV[j])
			moment = moment + 1
			inner[class] = math.max(tag, inner[class] or number(redis.call("HGET", meta, "inner:" .. class)))
			if cost > 0 then -- its first promotion: the class has had a turn
				virtual = math.max(virtual, outer[class] or number(redis.call("HGET", meta, "outer:" .. class)))
				outer[class] = virtual + cost
				redis.call("HSET", root .. "task:" .. ARGV[j], "in:" .. bucket, placed(epoch, reserved, tag, 0, class))
			end
			answer[#answer + 1] = ARGV[j]
		end
	end
	for class, tag in pairs(inner) do
		redis.call("HSET", meta, "inner:" .. class, exact(tag), "virtual", exact(virtual))
		redis.call("ZREMRANGEBYSCORE", root .. "flows:" .. with(bucket, class), "-inf", exact(tag))
	end
	for class, ends in pairs(outer) do
		redis.call("HSET", meta, "outer:" .. class, exact(ends))
	end
	local entry = redis.call("ZSCORE", KEYS[1], bucket)
	if not tidy(bucket) and (not entry or tonumber(entry) == planned and planned > now) then
		local at, oldest = now + (next > 0 and next or number(retry)), redis.call("ZRANGE", promoted, 0, 0, "WITHSCORES")
		if #oldest > 0 then
			at = math.min(at, tonumber(oldest[2]) + number(retry))
		end
		redis.call("ZADD", KEYS[1], whole(at), bucket)
	end
	i = last + 1
end
return answer
`

// parkScript removes tasks from the promoted tasks.
//
//	ARGV[2...] -> the tasks
//
// Output: nothing.
const parkScript = `
for i = 2, #ARGV do
	local bucket, tokens, flow = unpack(redis.call("HMGET", root .. "task:" .. ARGV[i], "bucket", "tokens", "flow"))
	if bucket and redis.call("ZREM", root .. "promoted:" .. bucket, ARGV[i]) == 1 then
		charge(bucket, tokens, flow, -1)
		tidy(bucket)
	end
end
return {}
`

// resignScript ends the duty of the caller.
//
//	ARGV[2] -> id of the caller
//
// Output: nothing.
const resignScript = `
if redis.call("HGET", KEYS[3], "id") == ARGV[2] then
	redis.call("DEL", KEYS[3])
	redis.pcall("PUBLISH", root .. "wake", "-1")
end
return {}
`

// Plan is the decision of the dispatcher for a bucket.
type Plan struct {
	Bucket string
	// Planned is Due.Planned.
	Planned int64
	Promote []Task
	// Next is the time until the next look at the bucket. Zero means that no task waits there. If a task waits after
	// all, the look is due after Duty.Retry. A look is never later than Duty.Retry after the promotion of the oldest
	// promoted task.
	Next time.Duration
}

// Promote moves tasks that still wait in their bucket from the list to the promoted tasks, and returns them in order.
// It plans the next look at each bucket. A look that a Join, Report, Leave or Fail has planned since the last look
// stays. If the process with this ID is no longer on duty, nothing changes.
func (w *Waitlist) Promote(ctx context.Context, id string, plans []Plan) (promoted []Task, onDuty bool, err error) {
	args := []any{id}
	for _, p := range plans {
		args = append(args, p.Bucket, p.Planned, p.Next.Microseconds(), len(p.Promote))
		for _, t := range p.Promote {
			args = append(args, t.String())
		}
	}
	r, err := w.run(ctx, "promote waiting tasks", w.scripts.promote, args...)
	if err != nil {
		return nil, false, err
	}
	onDuty = r.flag()
	for range r.texts {
		promoted = append(promoted, r.task())
	}
	return promoted, onDuty, r.err
}

// AllPromoted returns all promoted tasks that have not begun, in the order of promotion. A dispatcher that took over
// sends them to workers again, because the last one may have died before it did.
func (w *Waitlist) AllPromoted(ctx context.Context) ([]Task, error) {
	buckets, _, err := w.buckets(ctx, "", math.MaxInt)
	if err != nil {
		return nil, err
	}
	var all []redis.Z
	for some := range slices.Chunk(buckets, scanned) {
		var found []*redis.ZSliceCmd
		_, err := w.client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, bucket := range some {
				found = append(found, p.ZRangeWithScores(ctx, root+"promoted:"+bucket, 0, -1))
			}
			return nil
		})
		if err != nil && !redis.HasErrorPrefix(err, "WRONGTYPE") { // Look deletes a key of another type
			return nil, fmt.Errorf("list promoted tasks: %w", err)
		}
		for _, f := range found {
			all = append(all, f.Val()...)
		}
	}
	slices.SortStableFunc(all, func(a, b redis.Z) int { return cmp.Compare(a.Score, b.Score) })
	tasks := make([]Task, 0, len(all))
	for _, z := range all {
		if t, err := ParseTask(fmt.Sprint(z.Member)); err == nil { // else something else has put it there
			tasks = append(tasks, t)
		}
	}
	return tasks, nil
}

// Park stops counting promoted tasks that can't be delivered now: their workers have died, and asynq delivers the
// tasks again when their leases end. The tasks keep their tags, and are promoted tasks when they arrive.
func (w *Waitlist) Park(ctx context.Context, tasks []Task) error {
	args := make([]any, len(tasks))
	for i, t := range tasks {
		args[i] = t.String()
	}
	_, err := w.run(ctx, "park promoted tasks", w.scripts.park, args...)
	return err
}

// Resign ends the duty of the process with this ID, and wakes the others.
func (w *Waitlist) Resign(ctx context.Context, id string) error {
	_, err := w.run(ctx, "resign as dispatcher", w.scripts.resign, id)
	return err
}
