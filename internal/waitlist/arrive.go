package waitlist

import (
	"cmp"
	"context"
	"slices"
)

// arriveScript returns what is known of tasks. It changes nothing.
//
//	ARGV[2...] -> for each task: task, the number of buckets, these buckets
//
// Output: for each task: see arrived; then how many tasks wait in each of the buckets.
const arriveScript = `
local answer, i = {}, 2
while i < #ARGV do
	arrived(ARGV[i], answer)
	local last = i + 1 + tonumber(ARGV[i + 1])
	for b = i + 2, last do
		answer[#answer + 1] = tostring(count(ARGV[b]))
	end
	i = last + 1
end
return answer
`

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

// Arrival is a delivered task and the buckets whose waitlists matter to it.
type Arrival struct {
	Task

	Buckets []string
}

// Arrived is what the waitlists hold of a task.
type Arrived struct {
	State State
	// Bucket is where the task waits or is promoted, empty for a new one.
	Bucket string
	// Held lists the buckets in which the task has a tag, in order of their names.
	Held []Held
	// Waiting counts the waiting tasks, without the promoted ones, of each bucket of the Arrival, in that order.
	Waiting []int
	// Info is that of the Entry.
	Info []byte
}

// Held is one bucket in which a task has a tag.
type Held struct {
	Bucket   string
	Reserved bool // the task has a reservation there
}

// Arrive returns what the waitlists hold of delivered tasks, in the order of the arrivals. It changes nothing.
func (w *Waitlist) Arrive(ctx context.Context, arrivals []Arrival) ([]Arrived, error) {
	found := make([]Arrived, 0, len(arrivals))
	for some := range slices.Chunk(arrivals, together) {
		var args []any
		for _, a := range some {
			args = append(args, a.String(), len(a.Buckets))
			for _, bucket := range a.Buckets {
				args = append(args, bucket)
			}
		}
		r, err := w.run(ctx, "look up tasks in the waitlists", w.scripts.arrive, args...)
		if err != nil {
			return nil, err
		}
		for _, a := range some {
			one := r.arrived()
			for range a.Buckets {
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
