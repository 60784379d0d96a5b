package asynqdb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/hibiken/asynq"
)

// Pending is a task that is delivered next, or that a worker holds. Task is nil where asynq's message is unreadable.
type Pending struct {
	ID   string
	Task *asynq.Task
}

// pendingBytes is about how much of messages one script reads of pending tasks, and of active ones: Redis serves no
// other client meanwhile.
const pendingBytes = 4 << 20

// activeMost is how many active tasks one script looks at: the newest ones, whose buckets may not have answered yet.
const activeMost = 1024

// TakesFor is for how long a process takes the backlog of a queue after a call of Pending.
const TakesFor = 250 * time.Millisecond

// ErrTakenElsewhere is returned by Pending while another process takes the backlog.
var ErrTakenElsewhere = errors.New("another process takes the backlog")

// Pending reads tasks from the head of a queue's pending list, in the order of delivery; most is their largest
// number. It returns none if the queue is paused, or if fewer than from tasks are pending. It leaves out woken tasks,
// tasks of a group, and tasks that Take left. Active are the tasks that workers held at that moment, in the order of
// their delivery, without tasks that Take left.
//
// One process at a time takes the backlog of a queue. It does so until few tasks are left, or until TakesFor has
// passed since its last call of Pending. For other processes, the error is ErrTakenElsewhere.
func (d *DB) Pending(ctx context.Context, queue string, most, from int) (active, pending []Pending, err error) {
	k := keysOf(queue)
	args := []any{k.tasks(), most, from, pendingBytes, passMost, activeMost, d.process, TakesFor.Milliseconds()}
	in := []string{k.pending(), k.paused(), k.active(), takerKey(queue)}
	held, all, err := counted(d.pending.Run(ctx, d.client, in, args...).StringSlice())
	if err != nil {
		return nil, nil, fmt.Errorf("read pending tasks of queue %s: %w", queue, err)
	}
	if held < 0 {
		return nil, nil, ErrTakenElsewhere
	}
	slices.Reverse(all[:held])
	return all[:held], all[held:], nil
}

// counted reads the answer of a script: a number, then the ID and asynq's message of each task.
func counted(answer []string, failed error) (number int, all []Pending, err error) {
	if failed != nil {
		return 0, nil, failed
	}
	all = make([]Pending, 0, len(answer)/2)
	for i := 1; i+1 < len(answer); i += 2 {
		task, _ := DecodeMessage([]byte(answer[i+1])) // the worker that receives the task reports the fault
		all = append(all, Pending{ID: answer[i], Task: task})
	}
	number, err = strconv.Atoi(answer[0])
	return number, all, err
}

// takerKey shares the slot of the queue in a Redis cluster.
func takerKey(queue string) string { return "headway:taker:{" + queue + "}" }
