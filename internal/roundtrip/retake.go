package roundtrip

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// retakeScript reads a task that was given to this process, which did not hear of it.
//
//	KEYS[1] -> asynq's set of leases
//	ARGV[1] -> where the keys of the queue's tasks begin
//	ARGV[2] -> the lease that the task was given
//	ARGV[3] -> its new one
//
// Output: asynq's message; nil where there is no such task.
const retakeScript = `
for _, id in ipairs(redis.call("ZRANGEBYSCORE", KEYS[1], ARGV[2], ARGV[2])) do
	local message = redis.call("HGET", ARGV[1] .. id, "msg")
	if message then
		redis.call("ZADD", KEYS[1], ARGV[3], id)
		return message
	end
end
return nil`

// marks is how many leases that end in the same second can be told apart: Redis keeps them as floating point numbers.
const marks = 1_000_000

// takes are those of asynq's calls for a task that Redis did not answer: it may have given a task away, and nobody would know of that before its lease is over. So each
// call asks for a lease that ends some microseconds later than asynq wants it to, by which its task is found again.
type takes struct {
	retaking *redis.Script

	mu   sync.Mutex // guards what is below
	mark int64      // of the last call
	lost map[string]lease
}

// lease is one that was asked for, in seconds, and as Redis was told.
type lease struct {
	ends int64
	told string
}

// isTake says whether the script is asynq's that takes a task from a queue.
func isTake(c script) bool {
	if len(c.keys) != 4 || len(c.args) != 2 || !strings.HasSuffix(c.keys[0], ":pending") || !strings.HasSuffix(c.keys[3], ":lease") {
		return false
	}
	_, ok := c.args[0].(int64)
	return ok
}

// take takes the next task: one that was lost, else the next of the queue.
func (s *shared) take(ctx context.Context, call script) *redis.Cmd {
	ends, _ := call.args[0].(int64)
	queue, tasks := call.keys[3], call.args[1]
	if told := s.takes.missed(queue); told != "" {
		cmd := s.takes.retaking.Run(ctx, s.UniversalClient, []string{queue}, tasks, told, ends)
		if !errors.Is(cmd.Err(), redis.Nil) {
			return cmd
		}
		s.takes.forget(queue)
	}
	told := s.takes.marked(ends)
	cmd := s.UniversalClient.EvalSha(ctx, call.sha1, call.keys, told, tasks)
	if away(cmd.Err()) {
		s.takes.lose(queue, lease{ends: ends, told: told})
	}
	return cmd
}

// marked is a lease that nobody else asks for, in all likelihood.
func (t *takes) marked(ends int64) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mark = (t.mark + 1) % marks
	return fmt.Sprintf("%d.%06d", ends, t.mark)
}

// missed is the lease of a call that was not answered; empty where there is none that lasts.
func (t *takes) missed(queue string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lost[queue].ends <= time.Now().Unix() { // then it is asynq's to find
		delete(t.lost, queue)
	}
	return t.lost[queue].told
}

func (t *takes) lose(queue string, l lease) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lost[queue] = l
}

func (t *takes) forget(queue string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.lost, queue)
}
