package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/calls/pause"
	"github.com/headway-go/headway/internal/fleet/deadletter"
	"github.com/headway-go/headway/internal/line/asynqdb"
)

const (
	// sweepEveryDefault is how often the fleet looks for archived tasks without a record.
	sweepEveryDefault = 30 * time.Second
	// sweepOverlap is how much of what was looked at before is looked at again: the clocks of workers differ.
	sweepOverlap = time.Minute
	// sweepPatience bounds one look at a queue.
	sweepPatience = time.Minute
	// sweepTogether is how many tasks the store of dead tasks is asked about at once, recordsTogether how many it is
	// given.
	sweepTogether   = 500
	recordsTogether = 50
	// faultsMost bounds the faults of one sweep of a queue.
	faultsMost = 100
)

// sweeper adds tasks to the store of dead tasks that asynq itself archived. In a fleet one worker looks at a queue in
// each interval: for the others that costs one command, for this one a second.
type sweeper struct {
	client    redis.UniversalClient
	db        *asynqdb.DB
	inspector *asynq.Inspector
	records   deadletter.Store
	queues    func() []string
	every     time.Duration
	log       *slog.Logger

	// seen is, for each queue, until when every archived task has a record. It belongs to the running goroutine.
	seen map[string]time.Time
}

// run sweeps until ctx ends. The next sweep, of any worker, goes on from there.
func (s *sweeper) run(ctx context.Context) {
	if s == nil {
		return
	}
	for failing := false; ; {
		err := s.sweep(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil && !failing { // once an outage
			const text = "asynq's archive can't be compared with the records of dead tasks, will try again"
			s.log.LogAttrs(ctx, slog.LevelWarn, text, slog.Any("error", err))
		}
		failing = err != nil
		if pause.For(ctx, s.every) != nil {
			return
		}
	}
}

// sweep looks at the queues that no other worker has looked at in this interval.
func (s *sweeper) sweep(ctx context.Context) error {
	var faults []error
	for _, queue := range s.queues() {
		mine, err := s.client.SetArgs(ctx, sweepKey(queue), "", redis.SetArgs{Mode: "NX", TTL: s.every - s.every/10}).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return fmt.Errorf("take turns in sweeping queue %s: %w", queue, err)
		}
		if mine != "OK" {
			continue
		}
		began := time.Now()
		if err := s.queue(ctx, queue); err != nil {
			faults = append(faults, err)
			continue
		}
		s.seen[queue] = began
	}
	return errors.Join(faults...)
}

func sweepKey(queue string) string { return "headway:dead:swept:" + queue }

// queue records what the archive of a queue has and the store of dead tasks has not.
func (s *sweeper) queue(ctx context.Context, queue string) error {
	ctx, cancel := context.WithTimeout(ctx, sweepPatience)
	defer cancel()
	since := time.Time{}
	if seen, ok := s.seen[queue]; ok {
		since = seen.Add(-sweepOverlap)
	}
	found, err := s.db.Archived(ctx, queue, since)
	if err != nil {
		return err
	}
	var faults []error
	for chunk := range slices.Chunk(found, sweepTogether) {
		unknown, err := s.records.Unknown(ctx, chunk)
		err = errors.Join(err, s.record(ctx, unknown))
		if err != nil {
			faults = append(faults, err)
		}
		if ctx.Err() != nil || len(faults) >= faultsMost {
			break
		}
	}
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("keep the archived tasks of queue %s: %w", queue, err)
	}
	return nil
}

// record records the tasks that are still archived. A task that can't be read or recorded does not hold up the
// others.
func (s *sweeper) record(ctx context.Context, unknown []asynqdb.Archived) error {
	var faults []error
	for some := range slices.Chunk(unknown, recordsTogether) {
		var found []deadletter.Task
		for _, a := range some {
			if ctx.Err() != nil || len(faults) >= faultsMost { // the next sweep sees more
				return errors.Join(append(faults, ctx.Err())...)
			}
			info, err := s.inspector.GetTaskInfo(a.Queue, a.ID) // knows no context
			switch {
			case err == nil && info.State == asynq.TaskStateArchived:
				found = append(found, foundDead(info, a.At))
			case err != nil && !errors.Is(err, asynq.ErrTaskNotFound):
				faults = append(faults, fmt.Errorf("read task %q: %w", a.ID, err))
			}
		}
		if len(found) == 0 {
			continue
		}
		if err := s.records.Record(ctx, found); err != nil {
			faults = append(faults, err)
			continue
		}
		s.log.LogAttrs(ctx, slog.LevelInfo, "archived tasks without a record have one now",
			slog.String("queue", found[0].Queue), slog.Int("tasks", len(found)))
	}
	return errors.Join(faults...)
}

// foundDead is an archived task, as asynq knows it.
func foundDead(info *asynq.TaskInfo, at time.Time) deadletter.Task {
	last := deadletter.Attempt{At: info.LastFailedAt, Error: info.LastErr}
	if at.Sub(info.LastFailedAt).Abs() <= time.Second { // else a person archived it later: the attempt has its record
		last.Number = info.Retried + 1
	}
	return deadletter.Task{
		ID: info.ID, Queue: info.Queue, Type: info.Type,
		Payload: info.Payload, Headers: info.Headers, MaxRetry: info.MaxRetry,
		Timeout: info.Timeout, Retention: info.Retention, Deadline: info.Deadline,
		At: at, Cause: deadletter.CauseFound, Last: last,
	}
}
