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
//	ARGV[2...] -> for each task: task, bucket, flow, cost (negative: before all that wait), reserved, urgent (each "1"
//	              or "0"), tokens (JSON), info, how long to keep the record in milliseconds, class, cost in the class
//
// Output: for each bucket of the tasks: its name, how many sums of tokens follow, these.
const joinScript = `
local before, first, left = soonest(), {}, {}
for i = 2, #ARGV, 11 do
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
	local epoch, inner = open(bucket, class)
	if known and of ~= epoch then
		tag, turn = inner, 0
	elseif not known and cost < 0 then
		tag, turn = inner - 0.000001, 0
	elseif not known then
		tag = behind(bucket, class, inner, ARGV[i + 2], cost)
	end
	if early then
		redis.call("HDEL", record, given)
	end

	local lane = with(queue, class)
	redis.call("HSET", record, "bucket", bucket, "urgent", ARGV[i + 5], "tokens", ARGV[i + 6], "info", ARGV[i + 7],
		"flow", ARGV[i + 2], inside, placed(epoch, ARGV[i + 4], tag, turn, class))
	redis.call("PEXPIRE", record, ARGV[i + 8])
	if not redis.call("ZSCORE", root .. "timers", "a" .. task) then -- else it is enlisted when its timer is due
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
for i = 3, #ARGV, 11 do
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
	// costLeast keeps the order of tasks of one flow: two tags of a flow are never the same, in a waitlist that has been
	// busy for less than half a year.
	costLeast = 0x1p-30
	// costMost keeps tags small enough for costLeast to count.
	costMost = 1e6
	// keepLonger is how much longer than it waits the record of a task is kept, for one that is delivered late.
	keepLonger = 24 * time.Hour
)

// Entry is a task that joins the waitlist of a bucket, or goes back to its place in it.
type Entry struct {
	Task

	// Bucket is any name, which the package does not read.
	Bucket string
	// Class is the part of the waitlist that the task belongs to. The classes of a bucket share it by turns, and each
	// gives its turns to its flows. A bucket should have few of them. A task keeps the class of its tag.
	Class string
	// Turn is how long the turn of the class is that the task takes: seconds of the scarcest meter divided by the weight
	// of the class. Its bounds are those of Cost.
	Turn float64
	// Flow is the part of the class that the task belongs to. Tasks of one flow wait in the order in which they joined.
	Flow string
	// Cost is what the task adds to the end of its flow: seconds of the scarcest meter divided by the weight of the flow.
	// It counts as at least 2^-30 (1e-9) and at most 1e6 s, and only if the task has no tag in the bucket yet.
	Cost float64
	// Tokens is what the task charges, by meter.
	Tokens map[string]float64
	// Urgent is stored for the dispatcher.
	Urgent bool
	// Reserved is stored for the bucket: the task has a reservation there.
	Reserved bool
	// Front puts the task before all that wait, if it has not joined the bucket yet.
	Front bool
	// Info is stored for people. A record with an Info or a Bucket of more than 60 bytes takes twice the memory.
	Info []byte
	// Keep is how long the task waits at most, as far as the caller knows. Its record expires a day later.
	Keep time.Duration
}

// Join puts the tasks into the waitlists of their buckets. A task with a tag in its bucket goes to its place, also
// if it was promoted. A new one gets the larger of the tag of the last promoted task and the end of its flow, and
// moves that end on by its cost, here or when it arrives. A task is in the list of one bucket at a time: if it
// waits in another bucket, it leaves that list and keeps the tag.
//
// If a task is now the first of its queue in the bucket, a look at the bucket is due and the dispatcher is woken. So a
// task that its bucket refused goes back after the answer of the bucket was reported, not before.
//
// It returns what the waiting and promoted tasks of each of these buckets charge together, by bucket and meter.
//
// More than 128 entries are several atomic changes, in their order.
func (w *Waitlist) Join(ctx context.Context, entries []Entry) (sums map[string]map[string]float64, err error) {
	sums = map[string]map[string]float64{}
	for some := range slices.Chunk(entries, together) {
		args := make([]any, 0, 11*len(some))
		for _, e := range some {
			tokens, err := json.Marshal(e.Tokens)
			if err != nil {
				return nil, fmt.Errorf("join a waitlist: tokens of %s: %w", e.Task, err)
			}
			if e.Tokens == nil {
				tokens = []byte("{}")
			}
			args = append(args, e.String(), e.Bucket, e.Flow, e.cost(), e.Reserved, e.Urgent, tokens, e.Info,
				(max(0, e.Keep) + keepLonger).Milliseconds(), e.Class, bounded(e.Turn))
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
