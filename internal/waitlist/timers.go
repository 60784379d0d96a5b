package waitlist

import (
	"context"
	"slices"
	"time"
)

// The timers are a sorted set below root, "timers": a letter and a task, by when the timer is due. A task has at most
// one timer of each letter.
const (
	timerAt      = "a" // the task may start; a task that joins earlier is in no list until then
	timerStartBy = "s" // the task must have started
)

// setTimersScript sets timers. A timer that is set again gets the new time.
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

// ring removes due timers, up to a limit. It returns the tasks that asynq must deliver, each behind the letter of its
// timer. The letter is a capital for a task that waits in a list. A task that joined with a timer enters the list at
// its tag.
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
				tag = inner - 0.000001 -- the task has waited longest
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

// Timer is a pair of times at which the dispatcher acts on a task. A zero time is not set; a time in the past is due
// at once.
type Timer struct {
	Task

	// At is the time until the task may start. If the task joins a waitlist earlier, it keeps its place, but can't be
	// promoted until then.
	At time.Duration
	// StartBy is the time by which the task must have started, from now.
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

// Rung is a task whose timer was due. asynq must deliver it now.
type Rung struct {
	Task

	// Waits is true if the task is in a waitlist and had to start by now.
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
