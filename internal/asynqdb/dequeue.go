package asynqdb

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// redeliverScript returns a task that asynq delivered with a known lease, and gives it a new lease.
//
//	KEYS[1] -> asynq's set of leases
//	ARGV[1] -> prefix of asynq's task keys
//	ARGV[2] -> the known lease
//	ARGV[3] -> the new lease
//
// Output: asynq's message; nil where no task has the lease.
const redeliverScript = `
for _, id in ipairs(redis.call("ZRANGEBYSCORE", KEYS[1], ARGV[2], ARGV[2])) do
	local message = redis.call("HGET", ARGV[1] .. id, "msg")
	if message then
		redis.call("ZADD", KEYS[1], ARGV[3], id)
		return message
	end
end
return nil`

// marks is how many leases that end in the same second differ: Redis keeps them as floating point numbers.
const marks = 1_000_000

// dequeues finds the task of a dequeue whose answer was lost. Without it no worker would know of the task before its
// lease ends. Each dequeue asks for a lease that ends some microseconds later than asynq's, and the task is found by
// that lease.
type dequeues struct {
	script *redis.Script

	mu   sync.Mutex       // guards what follows
	mark int64            // of the last dequeue
	lost map[string]lease // by queue
}

// lease is the lease that a dequeue asked for.
type lease struct {
	ends   int64  // in seconds
	marked string // the same with the mark, as Redis has it
}

// dequeue returns the task of a lost answer, or else the next task of the queue.
func (s *server) dequeue(ctx context.Context, call script) *redis.Cmd {
	ends, _ := call.args[0].(int64)
	queue, prefix := call.keys[3], call.args[1]
	if marked := s.dequeues.lostLease(queue); marked != "" {
		cmd := s.dequeues.script.Run(ctx, s.UniversalClient, []string{queue}, prefix, marked, ends)
		if !errors.Is(cmd.Err(), redis.Nil) {
			return cmd
		}
		s.dequeues.forget(queue)
	}
	marked := s.dequeues.next(ends)
	cmd := s.UniversalClient.EvalSha(ctx, call.sha1, call.keys, marked, prefix)
	if away(cmd.Err()) {
		s.dequeues.lose(queue, lease{ends: ends, marked: marked})
	}
	return cmd
}

// next returns a lease that probably no other process asks for.
func (d *dequeues) next(ends int64) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mark = (d.mark + 1) % marks
	return strconv.FormatInt(ends, 10) + "." + strconv.FormatInt(marks+d.mark, 10)[1:]
}

// lostLease returns the lease of a lost answer, or an empty string. After the lease, asynq's recoverer finds the task.
func (d *dequeues) lostLease(queue string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lost[queue].ends <= time.Now().Unix() {
		delete(d.lost, queue)
	}
	return d.lost[queue].marked
}

func (d *dequeues) lose(queue string, l lease) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lost[queue] = l
}

func (d *dequeues) forget(queue string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.lost, queue)
}
