package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/scheduler"
	"github.com/headway-go/headway/tasks"
)

const (
	successorPauseMin = 50 * time.Millisecond
	successorPauseMax = 2 * time.Second
)

// successors enqueues copies of tasks that asynq would archive although they only have to wait.
type successors struct {
	client    *asynq.Client
	inspector *asynq.Inspector
}

func newSuccessors(client redis.UniversalClient) successors {
	return successors{client: asynq.NewClientFromRedisClient(client), inspector: asynq.NewInspectorFromRedisClient(client)}
}

// succeed lets a copy of the task wait in its stead: asynq archives a task on its last attempt whatever the error says. Nil
// ends the original. When Redis can't take the copy before ctx ends, the task is archived by asynq with that error.
func (g *gate) succeed(ctx context.Context, d *delivery, id string, deferral error) error {
	for pause := successorPauseMin; ; pause = min(2*pause, successorPauseMax) {
		err := g.successors.enqueue(ctx, d, id, deferral)
		if err == nil {
			g.tell(ctx, d, slog.LevelInfo, "task has to wait on its last attempt, a copy waits for it", slog.String("successor_id", id))
			return nil
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("enqueue successor %s: %w", id, errors.Join(err, deferral))
		}
	}
}

// enqueue sends the copy, to run no later than the deferral's safety net. A copy that is there already is fine.
func (s successors) enqueue(ctx context.Context, d *delivery, id string, deferral error) error {
	headers, err := successorHeaders(d)
	if err != nil {
		return err
	}
	retries := tasks.Options{ID: id, Queue: d.queue, MaxRetry: d.maxRetry - d.retried}
	if retries.MaxRetry <= 0 {
		retries.MaxRetry = tasks.NoRetry
	}
	headers[tasks.HeaderMaxRetry] = strconv.Itoa(retries.Retries())
	options := append(retries.Asynq(), asynq.ProcessIn(scheduler.RetryDelay(d.retried, deferral, d.task)))
	info, err := s.inspector.GetTaskInfo(d.queue, d.id)
	if err != nil {
		return fmt.Errorf("read task: %w", err)
	}
	if info.Timeout > 0 {
		options = append(options, asynq.Timeout(info.Timeout))
	}
	if !info.Deadline.IsZero() {
		options = append(options, asynq.Deadline(info.Deadline))
	}
	if info.Retention > 0 {
		options = append(options, asynq.Retention(info.Retention))
	}
	_, err = s.client.EnqueueContext(ctx, asynq.NewTaskWithHeaders(d.task.Type(), d.task.Payload(), headers), options...)
	if errors.Is(err, asynq.ErrTaskIDConflict) {
		return nil
	}
	return err
}

// successorHeaders are the task's own, and ours: the copy has room to wait.
func successorHeaders(d *delivery) (map[string]string, error) {
	charges, err := json.Marshal([]reservations.Charge{d.charge})
	if err != nil {
		return nil, fmt.Errorf("encode charge: %w", err)
	}
	headers := maps.Clone(d.task.Headers())
	if headers == nil {
		headers = map[string]string{}
	}
	headers[tasks.HeaderVersion] = strconv.Itoa(tasks.Version)
	headers[tasks.HeaderCharges] = string(charges)
	return headers, nil
}

// successorID is the same whoever asks, so that a task delivered twice has one successor: id~1, and id~2 after it.
func successorID(id string) string {
	if base, n, ok := cutLast(id, "~"); ok {
		if i, err := strconv.Atoi(n); err == nil && i > 0 {
			return base + "~" + strconv.Itoa(i+1)
		}
	}
	return id + "~1"
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}
