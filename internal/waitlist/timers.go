package waitlist

import (
	"context"
	"slices"
	"time"
)

// The timers are a sorted set below root, "timers": a letter and a task, by when the timer is due. A task has one of
// each letter at most.
const (
	timerAt      = "a" // the task may start: until then, a task that joined is in no list
	timerStartBy = "s" // the task had to start by then
)

// setTimersScript sets timers. One that is set again has the new time.
//
//	ARGV[2...] -> for each timer: letter and task, when it is due: microseconds from now
//
// Output: nothing.
const setTimersScript = `
local before = soonest()
for i = 2, #ARGV, 2 do
	redis.call("ZADD", root .. "timers", whole(now + tonumber(ARGV[i + 1])), ARGV[i])
end
wake(before)
return {}
`

// ring ends at most so many timers that are due, and returns their tasks that asynq has to deliver, each behind its
// letter, which is large for a task that waits in a list. A task that joined with a timer is enlisted at its tag.
const ring = `
local function ring(most)
	local rung = {}
	for _, timer in ipairs(redis.call("ZRANGEBYSCORE", root .. "timers", "-inf", whole(now), "LIMIT", 0, most)) do
		redis.call("ZREM", root .. "timers", timer)
		local letter, task = string.sub(timer, 1, 1), string.sub(timer, 2)
		local _, id = split(task)
		local bucket, tokens, flow = unpack(redis.call("HMGET", root .. "task:" .. task, "bucket", "tokens", "flow"))
		local lane, tag, reserved, given, _, class
		if bucket then
			lane, tag, reserved, given, _, class = laneIn(bucket, task)
		end
		if lane and letter == "a" then
			local epoch, inner = open(bucket, class)
			if given ~= epoch then
				tag = inner - 0.000001 -- it has waited longest
				redis.call("HSET", root .. "task:" .. task, "in:" .. bucket, placed(epoch, reserved, tag, 0, class))
			end
			enlist(bucket, lane, id, tag)
			charge(bucket, tokens, flow, 1)
			forward(bucket)
		elseif lane and redis.call("ZSCORE", listOf(bucket, lane), id) then
			rung[#rung + 1] = string.upper(letter) .. task
		else
			rung[#rung + 1] = letter .. task
		end
	end
	return rung
end
`

// Timer has the dispatcher see to a task at two moments. A zero one is none; one that has passed is due at once.
type Timer struct {
	Task

	// At is how soon the task may start. If it joins a waitlist before, it keeps its place there, and can't be
	// promoted.
	At time.Duration
	// StartBy is how soon the task has to have started.
	StartBy time.Duration
}

// SetTimers sets the timers of tasks, before they join.
func (w *Waitlist) SetTimers(ctx context.Context, timers []Timer) error {
	for some := range slices.Chunk(timers, together) {
		var args []any
		for _, t := range some {
			if t.At != 0 {
				args = append(args, timerAt+t.String(), t.At.Microseconds())
			}
			if t.StartBy != 0 {
				args = append(args, timerStartBy+t.String(), t.StartBy.Microseconds())
			}
		}
		if _, err := w.run(ctx, "set timers of tasks", w.scripts.timers, args...); err != nil {
			return err
		}
	}
	return nil
}

// Rung is a task with a timer that was due. Asynq has to deliver it now.
type Rung struct {
	Task

	// Waits says that the task is in a waitlist, and had to start by now.
	Waits bool
}

func (r *reply) rung() (all []Rung) {
	for range r.count() {
		letter, name := cutLetter(r.text())
		if task, err := ParseTask(name); err == nil { // else something else has put it there
			all = append(all, Rung{Task: task, Waits: letter == "S"})
		}
	}
	return all
}

func cutLetter(text string) (letter, rest string) {
	n := min(1, len(text))
	return text[:n], text[n:]
}
