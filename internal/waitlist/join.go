package waitlist

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// joinScript puts tasks into the lists of their buckets.
//
//	ARGV[2...] -> for each task: task; bucket; flow; cost (negative: before all waiting tasks); reserved; urgent ("1"
//	              or "0"); tokens (JSON); info; how long to keep the record in milliseconds; class; cost in the class;
//	              when the task arrived (late if it was not delivered)
//
// Output, for each bucket of the tasks: its name; the number of sums of tokens; the sums.
const joinScript = `
local before, first, left = soonest(), {}, {}
for i = 2, #ARGV, 12 do
	local task, bucket, class, turn = ARGV[i], ARGV[i + 1], ARGV[i + 9], tonumber(ARGV[i + 10])
	local record, inside, given = root .. "task:" .. task, "in:" .. bucket, "tag:" .. bucket
	local queue, id = split(task)
	local old = withdraw(task)
	if old and old ~= bucket then
		left[old] = true
	end

	local kept, early = unpack(redis.call("HMGET", record, inside, given))
	local tag, cost, of = nil, tonumber(ARGV[i + 3]), nil
	if not place(kept) then
		kept = nil
	end
	if not place(early) then
		early = nil
	end
	local known = kept or early and cost >= 0
	if known then
		local _
		tag, _, of, turn, class = place(kept or early)
	end
	local epoch, inner, busy = open(bucket, class)
	if known and of ~= epoch then
		tag, turn = inner, 0
	elseif not known and cost < 0 then
		tag, turn = front(busy, now - 1e11) or inner - 0.000001, 0 -- before all arrivals of the last day
	elseif not known then
		tag = behind(bucket, class, inner, ARGV[i + 2], cost)
	end
	if not kept and cost >= 0 then
		tag = front(busy, tonumber(ARGV[i + 11])) or tag
	end
	if early then
		redis.call("HDEL", record, given)
	end

	local lane = with(queue, class)
	redis.call("HSET", record, "bucket", bucket, "urgent", ARGV[i + 5], "tokens", ARGV[i + 6], "info", ARGV[i + 7],
		"flow", ARGV[i + 2], inside, placed(epoch, ARGV[i + 4], tag, turn, class))
	redis.call("PEXPIRE", record, ARGV[i + 8])
	if not redis.call("ZSCORE", root .. "timers", "a" .. task) then -- else ring enlists it when its timer is due
		enlist(bucket, lane, id, tag)
		charge(bucket, ARGV[i + 6], ARGV[i + 2], 1)
	end
	if redis.call("ZRANK", listOf(bucket, lane), id) == 0 or not redis.call("ZSCORE", KEYS[1], bucket) then
		first[bucket] = true
	end
end
for bucket in pairs(left) do
	tidy(bucket)
end
for bucket in pairs(first) do
	if not tidy(bucket) then -- a later entry may have moved the task
		forward(bucket)
	end
end
wake(before)
local answer, named = {}, {}
for i = 3, #ARGV, 12 do
	local bucket = ARGV[i]
	if not named[bucket] then
		named[bucket] = true
		local sums = redis.call("HGETALL", root .. "sums:" .. bucket)
		answer[#answer + 1] = bucket
		answer[#answer + 1] = tostring(#sums / 2)
		for _, text in ipairs(sums) do
			answer[#answer + 1] = text
		end
	end
end
return answer
`

const (
	// costLeast keeps tasks of one flow in order: two tags of a flow differ, while the waitlist has been busy for
	// less than half a year.
	costLeast = 0x1p-30
	// costMost keeps tags small enough for costLeast to count.
	costMost = 1e6
	// keepLonger is how long Redis keeps the record of a task beyond its longest wait, in case the task is delivered
	// late.
	keepLonger = 24 * time.Hour
)

// Entry is a task that joins the waitlist of a bucket, or goes back to its place in it.
type Entry struct {
	Task

	// Bucket is any name. The package does not parse it.
	Bucket string
	// Class is the part of the waitlist that the task belongs to. The classes of a bucket take turns, and the flows
	// of a class share its turns. A bucket should have few classes. A task keeps the class of its tag.
	Class string
	// Turn is the length of the turn that the task takes from its class: seconds of the scarcest meter divided by the
	// weight of the class. It has the same bounds as Cost.
	Turn float64
	// Flow is the part of the class that the task belongs to. Tasks of one flow wait in the order in which they joined.
	Flow string
	// Cost is by how much the task moves the end of its flow on: seconds of the scarcest meter divided by the weight
	// of the flow. It counts as at least 2^-30 (1e-9) and at most 1e6 s. It is ignored if the task has a tag in the
	// bucket.
	Cost float64
	// Tokens is the charge of the task, by meter.
	Tokens map[string]float64
	// Urgent is stored for the dispatcher.
	Urgent bool
	// Reserved is stored for the bucket. It is true if the task has a reservation there.
	Reserved bool
	// Front puts the task before all waiting tasks, if it has not joined the bucket yet.
	Front bool
	// Arrived is Arrived.At of the delivery. A task that arrived before another task waited in the bucket has its place
	// before all others, in the order of arrival. Its bucket may answer late. It is zero if the task was not delivered.
	Arrived time.Time
	// Info is stored for people. A record with an Info or a Bucket of more than 60 bytes takes twice the memory.
	Info []byte
	// Keep is the longest time that the caller expects the task to wait. The record of the task expires a day later.
	Keep time.Duration
}

// Join puts the tasks into the waitlists of their buckets. A task with a tag in its bucket goes to its place, even if
// it was promoted. The tag of a new task is the larger of the last promoted tag and the end of its flow. The cost of
// the task moves that end on, here or when the task arrives. A task is in the list of one bucket at a time: if it
// waits in another bucket, it leaves that list and keeps the tag.
//
// If a task is now the first of its queue in the bucket, a look at the bucket is due, and Join wakes the dispatcher.
// So report the answer of a bucket that refused a task before the task joins again.
//
// Join returns the sum of the charges of all waiting and promoted tasks, by bucket and meter.
//
// Each 128 entries are one atomic change, in their order.
func (w *Waitlist) Join(ctx context.Context, entries []Entry) (sums map[string]map[string]float64, err error) {
	sums = map[string]map[string]float64{}
	for some := range slices.Chunk(entries, together) {
		args := make([]any, 0, 12*len(some))
		for _, e := range some {
			tokens, err := json.Marshal(e.Tokens)
			if err != nil {
				return nil, fmt.Errorf("join a waitlist: tokens of %s: %w", e.Task, err)
			}
			if e.Tokens == nil {
				tokens = []byte("{}")
			}
			args = append(args, e.String(), e.Bucket, e.Flow, e.cost(), e.Reserved, e.Urgent, tokens, e.Info,
				(max(0, e.Keep) + keepLonger).Milliseconds(), e.Class, bounded(e.Turn),
				e.arrived())
		}
		r, err := w.run(ctx, "join a waitlist", w.scripts.join, args...)
		if err != nil {
			return nil, err
		}
		for len(r.texts) > 0 && r.err == nil {
			bucket := r.text()
			sums[bucket] = r.sums()
		}
		if r.err != nil {
			return nil, r.err
		}
	}
	return sums, nil
}

// arrived is in microseconds, late if the task was not delivered.
func (e Entry) arrived() int64 {
	if e.Arrived.IsZero() {
		return 1 << 53
	}
	return e.Arrived.UnixMicro()
}

// cost is negative for Front.
func (e Entry) cost() float64 {
	if e.Front {
		return -1
	}
	return bounded(e.Cost)
}

// bounded is a cost within its bounds; one that is not a number counts as the least.
func bounded(cost float64) float64 {
	if !(cost >= costLeast) {
		return costLeast
	}
	return min(cost, costMost)
}
