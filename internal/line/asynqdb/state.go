package asynqdb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// Workers look for tasks whose worker is gone when they start and every RecoverEvery. They put tasks back whose lease
// ended RecoverAfter ago. Both are asynq's.
const (
	RecoverAfter = 30 * time.Second
	RecoverEvery = time.Minute
)

// QueueState is what decides when a worker receives a task, and what a worker does with it.
type QueueState struct {
	// Before is how many tasks are delivered before the task. Negative where the task is not pending.
	Before int
	// Paused reports whether the queue is paused, and Tasks is the number of its tasks that have not ended.
	Paused bool
	Tasks  int
	// Workers is how many workers take from the queue, Others how many take from other queues only. Stopping workers
	// serve the queue and take no more tasks. A worker that was killed counts for some seconds more.
	Workers, Stopping, Others int
	// Worker is the worker that runs the task, as host:pid, and Started when it began. Zero where no worker says so.
	Worker  string
	Started time.Time
	// Lease is when the lease of the worker that has the task ends, by that worker's clock. Zero without a worker.
	Lease time.Time
	// Note is why the task was sent back to wait the last time; zero where it never was. See Note.Of.
	Note Note
	// Archived is when the task was archived, in whole seconds. Zero where it is not archived.
	Archived time.Time
}

// Orphaned reports whether the worker that had the task is gone: its lease has ended, or no worker of the queue sends
// signs of life. The signs of life of a worker end before its leases.
//
// asynq sets TaskInfo.IsOrphaned only where it lists tasks.
func (q QueueState) Orphaned(now time.Time) bool {
	return !q.Lease.IsZero() && (q.Lease.Before(now) || q.Workers+q.Stopping == 0 && q.Worker == "")
}

// State reads the state of a task's queue. A task that does not exist is not pending, and has no lease. An empty ID is
// no task's.
func (d *DB) State(ctx context.Context, queue, id string) (QueueState, error) {
	q, k := QueueState{Before: -1}, keysOf(queue)
	pipe := d.client.Pipeline()
	sizes := []*redis.IntCmd{
		pipe.LLen(ctx, k.pending()), pipe.LLen(ctx, k.active()),
		pipe.ZCard(ctx, k.scheduled()), pipe.ZCard(ctx, k.retry()),
	}
	position := redis.NewIntResult(0, redis.Nil)
	if id != "" { // Redis searches the whole list
		position = pipe.LPos(ctx, k.pending(), id, redis.LPosArgs{})
	}
	paused, lease := pipe.Exists(ctx, k.paused()), pipe.ZScore(ctx, k.leases(), id)
	archived, note := pipe.ZScore(ctx, k.archived(), id), pipe.HGet(ctx, k.tasks()+id, noteField)
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return q, fmt.Errorf("look at queue %s: %w", queue, err)
	}
	for _, n := range sizes {
		q.Tasks += int(n.Val())
	}
	if position.Err() == nil {
		q.Before = int(sizes[0].Val() - 1 - position.Val())
	}
	if lease.Err() == nil {
		q.Lease = time.Unix(int64(lease.Val()), 0).UTC()
	}
	if archived.Err() == nil {
		q.Archived = time.Unix(int64(archived.Val()), 0).UTC()
	}
	_ = json.Unmarshal([]byte(note.Val()), &q.Note) // what can't be read is for people alone
	q.Paused = paused.Val() > 0
	servers, err := d.inspector.Servers()
	if err != nil {
		return q, fmt.Errorf("look for the workers of queue %s: %w", queue, err)
	}
	for _, server := range servers {
		q = q.with(server, queue, id)
	}
	return q, nil
}

// serverActive is asynq's status of a server that takes tasks.
const serverActive = "active"

// with adds what a server does with the queue and the task.
func (q QueueState) with(server *asynq.ServerInfo, queue, id string) QueueState {
	switch {
	case server.Queues[queue] == 0:
		q.Others++
	case server.Status == serverActive:
		q.Workers++
	default:
		q.Stopping++
	}
	for _, w := range server.ActiveWorkers {
		if w.TaskID == id && w.Queue == queue {
			q.Worker, q.Started = fmt.Sprintf("%s:%d", server.Host, server.PID), w.Started
		}
	}
	return q
}
