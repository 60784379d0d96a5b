package waitlist

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// arriveScript returns what is known of tasks, and gives tags to tasks that will wait.
//
//	ARGV[2]    -> how long a tag is kept for a task that does not join, in milliseconds
//	ARGV[3...] -> for each task: task, "1" for a tag in any case, number of buckets, for each of these: bucket, flow,
//	              cost, class, cost in the class
//
// Output: for each task: see arrived; then how many tasks wait in each of the buckets.
const arriveScript = `
local answer, counts, opened, i = {}, {}, {}, 3

local function tag(task, bucket, flow, cost, class, turn)
	local record, given, key = root .. "task:" .. task, "tag:" .. bucket, with(bucket, class)
	if redis.call("HEXISTS", record, given) == 0 then
		opened[key] = opened[key] or {bucket, open(bucket, class)}
		local _, epoch, inner = unpack(opened[key])
		redis.call("HSET", record, given, placed(epoch, "0", behind(bucket, class, inner, flow, cost), tonumber(turn), class))
		redis.call("PEXPIRE", record, ARGV[2])
	end
end

while i < #ARGV do
	local first, last = i + 3, i + 2 + 5 * tonumber(ARGV[i + 2])
	local state, chosen = arrived(ARGV[i], answer), nil
	for b = first, last, 5 do
		counts[ARGV[b]] = counts[ARGV[b]] or count(ARGV[b])
		answer[#answer + 1] = tostring(counts[ARGV[b]])
		if not chosen and counts[ARGV[b]] > 0 then
			chosen = b
		end
	end
	if not chosen and ARGV[i + 1] == "1" and first < last then
		chosen = first
	end
	if chosen and state == "0" then
		tag(ARGV[i], unpack(ARGV, chosen, chosen + 4))
	end
	i = last + 1
end
for _, of in pairs(opened) do
	tidy(of[1]) -- the tasks of an idle bucket may start at once, and never join
end
return answer
`

// tagKept is how long a tag is kept for a task that does not join: longer than a bucket takes to answer.
const tagKept = time.Minute

// leaveScript removes tasks.
//
//	ARGV[2...] -> tasks
//
// Output: for each task what was known of it: see arrived.
const leaveScript = `
local before, answer, left = soonest(), {}, {}
for i = 2, #ARGV do
	arrived(ARGV[i], answer)
	local bucket = withdraw(ARGV[i])
	if bucket then
		left[bucket] = true
	end
	redis.call("DEL", root .. "task:" .. ARGV[i])
end
for bucket in pairs(left) do
	if not tidy(bucket) then
		forward(bucket)
	end
end
wake(before)
return answer
`

// State is what a delivered task is to the waitlists.
type State int

// The states of a task.
const (
	StateNew      State = iota // in no waitlist
	StateWaiting               // in the list of a bucket
	StatePromoted              // out of the list, to ask its bucket
)

// Arrival is a task that is delivered, or that may be.
type Arrival struct {
	Task

	// Wants are the entries of which the task may join one, in the order in which their buckets are asked. Only Bucket,
	// Class, Turn, Flow and Cost are read.
	Wants []Entry
	// Joins says that the task will probably wait, also where no other task does.
	Joins bool
}

// Arrived is what the waitlists hold of a task.
type Arrived struct {
	State State
	// Bucket is where the task waits or is promoted, empty for a new one.
	Bucket string
	// Held lists the buckets in which the task has a tag, in order of their names.
	Held []Held
	// Waiting counts the waiting tasks, without the promoted ones, of each bucket of Wants, in that order.
	Waiting []int
	// Info is that of the Entry.
	Info []byte
}

// Held is one bucket in which a task has a tag.
type Held struct {
	Bucket   string
	Reserved bool // the task has a reservation there
}

// Arrive returns what the waitlists hold of tasks, in the order of the arrivals. A task that is in no waitlist
// gets its tag in the first bucket of Wants in which others wait, with Joins else in the first one. So tasks wait
// in the order in which they arrived, whichever bucket answers first. The first tag that a task gets in a bucket
// counts. It is kept for a minute, if the task does not join.
//
// More than 128 arrivals are several atomic changes, in their order.
func (w *Waitlist) Arrive(ctx context.Context, arrivals []Arrival) ([]Arrived, error) {
	found := make([]Arrived, 0, len(arrivals))
	for some := range slices.Chunk(arrivals, together) {
		args := []any{tagKept.Milliseconds()}
		for _, a := range some {
			args = append(args, a.String(), a.Joins, len(a.Wants))
			for _, e := range a.Wants {
				args = append(args, e.Bucket, e.Flow, e.cost(), e.Class, bounded(e.Turn))
			}
		}
		r, err := w.run(ctx, "look up tasks in the waitlists", w.scripts.arrive, args...)
		if err != nil {
			return nil, err
		}
		for _, a := range some {
			one := r.arrived()
			for range a.Wants {
				one.Waiting = append(one.Waiting, r.count())
			}
			found = append(found, one)
		}
		if r.err != nil {
			return nil, r.err
		}
	}
	return found, nil
}

// Leave removes every trace of tasks that will not start here, and returns what the waitlists held of each, without
// Waiting. A look at the buckets in which they waited is due.
//
// More than 128 tasks are several atomic changes: after an error, Leave returns those that were removed before it.
func (w *Waitlist) Leave(ctx context.Context, tasks []Task) ([]Arrived, error) {
	left := make([]Arrived, 0, len(tasks))
	for some := range slices.Chunk(tasks, together) {
		args := make([]any, len(some))
		for i, t := range some {
			args[i] = t.String()
		}
		r, err := w.run(ctx, "leave the waitlists", w.scripts.leave, args...)
		if err != nil {
			return left, err
		}
		for range some {
			left = append(left, r.arrived())
		}
		if r.err != nil {
			return left, r.err
		}
	}
	return left, nil
}

// arrived reads what the function of that name in the scripts wrote.
func (r *reply) arrived() Arrived {
	a := Arrived{State: State(r.count()), Bucket: r.text()}
	if info := r.text(); info != "" {
		a.Info = []byte(info)
	}
	for range r.count() {
		a.Held = append(a.Held, Held{Bucket: r.text(), Reserved: r.flag()})
	}
	slices.SortFunc(a.Held, func(a, b Held) int { return cmp.Compare(a.Bucket, b.Bucket) })
	return a
}
