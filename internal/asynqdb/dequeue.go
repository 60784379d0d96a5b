package asynqdb

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/lua"
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

// dequeues takes several tasks in one round trip, for a server that has slots for them, and hands them out one by one.
//
// It also finds the tasks of a dequeue whose answer was lost. Without it no worker would know of these tasks before
// their lease ends. Each dequeue asks for a lease that ends some microseconds later than asynq's, and the tasks are
// found by that lease.
type dequeues struct {
	take, again, back *redis.Script

	puttingBack sync.Mutex // one at a time, so that the last one waits for the others

	mu    sync.Mutex       // guards what follows
	mark  int64            // of the last dequeue
	lost  map[string]lease // by queue
	ahead batch
	late  *time.Timer // puts ahead back; nil before the first batch
}

func newDequeues() dequeues {
	return dequeues{
		take: lua.Script(files, "woken", "dequeue"), again: lua.Script(files, "redeliver"),
		back: lua.Script(files, "put_back"), lost: map[string]lease{},
		mark: rand.Int64N(marks), //nolint:gosec // needs no secrecy
	}
}

// batch has the tasks of one dequeue that the server has not asked for yet.
type batch struct {
	script // asynq's

	lease string
	tasks []string // of each the ID and asynq's message
}

// lease is the lease that a dequeue asked for.
type lease struct {
	ends   int64  // in seconds
	marked string // the same with the mark, as Redis has it
}

// dequeue returns a task that was taken before, or the task of a lost answer, or else the next task of the queue. A
// task that was taken before may be of another queue: asynq reads the queue from the message.
func (s *Server) dequeue(ctx context.Context, call script) *redis.Cmd {
	if message, ok := s.dequeues.next(); ok {
		return redis.NewCmdResult(message, nil)
	}
	ends, _ := call.args[0].(int64)
	queue, prefix := call.keys[3], call.args[1]
	if marked := s.dequeues.lostLease(queue); marked != "" {
		cmd := s.dequeues.again.Run(ctx, s.UniversalClient, []string{queue}, prefix, marked, ends)
		if !errors.Is(cmd.Err(), redis.Nil) {
			return cmd
		}
		s.dequeues.lose(queue, lease{})
	}
	marked := s.dequeues.marked(ends)
	sorting := s.Sorting != nil && s.Sorting(queueOf(queue))
	found, err := s.dequeues.take.Run(ctx, s.UniversalClient, call.keys, prefix, marked, s.most(), aheadShare, sorting).
		StringSlice()
	if away(err) {
		s.dequeues.lose(queue, lease{ends: ends, marked: marked})
	}
	if err == nil && len(found) == 0 {
		err = redis.Nil
	}
	if err != nil {
		return redis.NewCmdResult(nil, err)
	}
	if len(found) > 2 {
		s.keep(batch{script: call, lease: marked, tasks: found[2:]})
	}
	return redis.NewCmdResult(found[1], nil)
}

// most returns how many tasks the server may take at once: one, and half of the tasks that it can run beside that
// one. The other half is for tasks that asynq has and that have not begun.
func (s *Server) most() int {
	select {
	case <-s.Stopping:
		return 1
	default:
	}
	if s.Free == nil {
		return 1
	}
	return min(1+max(0, s.Free()-1)/2, aheadMost)
}

// keep keeps the tasks of a batch until the server asks for them, at most for aheadKept.
func (s *Server) keep(b batch) {
	d := &s.dequeues
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ahead = b
	if d.late == nil {
		d.late = time.AfterFunc(aheadKept, s.PutBack)
		return
	}
	d.late.Reset(aheadKept)
}

// PutBack moves tasks that asynq has not asked for back to the head of their pending list. Call it when the asynq
// server has stopped. If Redis does not answer, the tasks are delivered again after their lease.
func (s *Server) PutBack() {
	d := &s.dequeues
	d.puttingBack.Lock()
	defer d.puttingBack.Unlock()
	d.mu.Lock()
	b := d.ahead
	d.ahead = batch{}
	d.mu.Unlock()
	if len(b.tasks) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), putBackTimeout)
	defer cancel()
	args := []any{b.args[1], b.lease}
	for i := 0; i < len(b.tasks); i += 2 {
		args = append(args, b.tasks[i])
	}
	_ = d.back.Run(ctx, s.UniversalClient, b.keys, args...).Err() // the lease ends anyway
}

// next returns the message of a task that was taken before.
func (d *dequeues) next() (message string, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.ahead.tasks) == 0 {
		return "", false
	}
	message, d.ahead.tasks = d.ahead.tasks[1], d.ahead.tasks[2:]
	if len(d.ahead.tasks) == 0 {
		d.late.Stop()
	}
	return message, true
}

// marked returns a lease that probably no other process asks for.
func (d *dequeues) marked(ends int64) string {
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

// lose stores the lease of a lost answer. Without a lease it forgets the last one.
func (d *dequeues) lose(queue string, l lease) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lost[queue] = l
}
