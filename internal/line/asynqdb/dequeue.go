package asynqdb

import (
	"cmp"
	"context"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// aheadMost is how many tasks a server takes in one round trip.
	aheadMost = 16
	// aheadShare is the part of the pending list that a server takes at once, apart from its first task. So servers
	// share a short list.
	aheadShare = 16
	// aheadKept is how long a task that was taken together with others waits for the server, before it is pending
	// again. A server with free slots asks for it within microseconds.
	aheadKept = 50 * time.Millisecond
	// putBackTimeout bounds the way back.
	putBackTimeout = 2 * time.Second
)

// marks is how many leases that end in the same second differ: Redis keeps them as floating point numbers.
const marks = 1_000_000

// batch has the tasks of one dequeue that the server has not asked for yet.
type batch struct {
	script // asynq's

	lease string
	tasks []string // of each what the script dequeue returns
}

// lease is the lease that a dequeue asked for.
type lease struct {
	ends   int64  // in seconds
	marked string // the same with the mark, as Redis has it
}

// dequeue returns a task that was taken before, or the task of a lost answer, or else the next task of the queue. A
// task that was taken before may be of another queue: asynq reads the queue from the message.
//
// If all queues were empty, dequeue first waits for a message, see [Server.Listen].
//
// Without the tasks of lost answers no worker would know of them before their lease ends. Each dequeue asks for a lease
// that ends some microseconds later than asynq's, and the tasks are found by that lease.
func (s *Server) dequeue(ctx context.Context, call script) *redis.Cmd {
	if message, ok := s.next(); ok {
		return redis.NewCmdResult(message, nil)
	}
	if !s.idle.wait(s.Stopping) {
		return redis.NewCmdResult(nil, redis.Nil)
	}
	heard := s.idle.messageCount()
	ends, _ := call.args[0].(int64)
	queue, prefix := call.keys[3], call.args[1]
	if marked := s.lostLease(queue); marked != "" {
		found, err := s.again.Run(ctx, s.UniversalClient, []string{queue}, prefix, marked, ends).StringSlice()
		if err != nil {
			return redis.NewCmdResult(nil, err)
		}
		if len(found) == perTask {
			return redis.NewCmdResult(delivered(found), nil)
		}
		s.lose(queue, lease{})
	}
	marked := s.marked(ends)
	free := s.free()
	found, err := s.take.Run(ctx, s.UniversalClient, call.keys,
		prefix, marked, most(free), aheadShare, s.id, free).StringSlice()
	if away(err) {
		s.lose(queue, lease{ends: ends, marked: marked})
	}
	s.idle.found(call.keys[0], heard, err == nil && found[0] == "1", cmp.Or(s.Net, NetDefault))
	if err == nil && len(found) == 1 {
		err = redis.Nil
	}
	if err != nil {
		return redis.NewCmdResult(nil, err)
	}
	found = found[1:]
	if len(found) > perTask {
		s.keep(batch{script: call, lease: marked, tasks: found[perTask:]})
	}
	return redis.NewCmdResult(delivered(found), nil)
}

// perTask is how many texts the script dequeue returns for a task.
const perTask = 3

// delivered is the message of the first task that the script dequeue returned.
func delivered(found []string) string {
	if found[2] == "1" {
		return expiring(found[1], time.Now())
	}
	return found[1]
}

// free is how many tasks the server can run more, zero for a stopping one.
func (s *Server) free() int {
	select {
	case <-s.Stopping:
		return 0
	default:
	}
	if s.Free == nil {
		return 1
	}
	return s.Free()
}

// most returns how many tasks the server may take at once: one, and half of the tasks that it can run beside that
// one. The other half is for tasks that asynq has and that have not begun.
func most(free int) int { return min(1+max(0, free-1)/2, aheadMost) }

// keep keeps the tasks of a batch until the server asks for them, at most for aheadKept.
func (s *Server) keep(b batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead = b
	if s.late == nil {
		s.late = time.AfterFunc(aheadKept, s.PutBack)
		return
	}
	s.late.Reset(aheadKept)
}

// PutBack moves tasks that asynq has not asked for back to the head of their pending list. Call it when the asynq
// server has stopped. If Redis does not answer, the tasks are delivered again after their lease.
func (s *Server) PutBack() {
	s.puttingBack <- struct{}{}
	defer func() { <-s.puttingBack }()
	s.mu.Lock()
	b := s.ahead
	s.ahead = batch{}
	s.mu.Unlock()
	if len(b.tasks) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), putBackTimeout)
	defer cancel()
	args := []any{b.args[1], b.lease}
	for i := 0; i < len(b.tasks); i += perTask {
		args = append(args, b.tasks[i])
	}
	_ = s.back.Run(ctx, s.UniversalClient, b.keys, args...).Err() // the lease ends anyway
}

// next returns the message of a task that was taken before.
func (s *Server) next() (message string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ahead.tasks) == 0 {
		return "", false
	}
	message, s.ahead.tasks = delivered(s.ahead.tasks), s.ahead.tasks[perTask:]
	if len(s.ahead.tasks) == 0 {
		s.late.Stop()
	}
	return message, true
}

// marked returns a lease that probably no other process asks for.
func (s *Server) marked(ends int64) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mark = (s.mark + 1) % marks
	return strconv.FormatInt(ends, 10) + "." + strconv.FormatInt(marks+s.mark, 10)[1:]
}

// lostLease returns the lease of a lost answer, or an empty string. After the lease, asynq's recoverer finds the task.
func (s *Server) lostLease(queue string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost[queue].ends <= time.Now().Unix() {
		delete(s.lost, queue)
	}
	return s.lost[queue].marked
}

// lose stores the lease of a lost answer. Without a lease it forgets the last one.
func (s *Server) lose(queue string, l lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost[queue] = l
}
