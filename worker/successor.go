package worker

import (
	"bytes"
	"cmp"
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

	"github.com/headway-go/headway/internal/engine"
	"github.com/headway-go/headway/internal/envelope"
	"github.com/headway-go/headway/internal/pause"
	"github.com/headway-go/headway/tasks"
)

const (
	retryPauseMin  = 50 * time.Millisecond
	retryPauseMost = 2 * time.Second
	// wholeSecond is what asynq may cut off a time.
	wholeSecond = time.Second
)

// headerOriginal marks a copy: it holds the ID of the task that the copy replaces.
const headerOriginal = "headway-successor-of"

// succeed enqueues a copy that waits instead of the task, and returns its ID: asynq archives a task on its last
// attempt whatever the error says. The copy exists before it joins a waitlist, so that the dispatcher finds it. If
// Redis does not take the copy before ctx ends, asynq archives the task with that error.
func (g *guard) succeed(ctx context.Context, d *delivery, wait time.Duration) (id string, err error) {
	err = pause.Until(ctx, retryPauseMin, retryPauseMost, func() error {
		if id, err = g.successor(ctx, d); err != nil {
			return err
		}
		return g.enqueueCopy(ctx, d, id, wait)
	})
	if err != nil {
		return "", fmt.Errorf("task has to wait on its last attempt: enqueue a successor: %w", err)
	}
	const text = "task has to wait on its last attempt, a copy waits for it"
	g.logTask(ctx, d, slog.LevelInfo, text, slog.String("successor_id", id))
	return id, nil
}

// successor is the ID for a copy of the task: that of a copy that waits already, else the first that no task has. So a
// task that was delivered twice has one successor. A copy that is archived, or kept after its end, does not wait.
func (g *guard) successor(ctx context.Context, d *delivery) (string, error) {
	for id := nextID(d.id); ; id = nextID(id) {
		info, err := g.inspector.GetTaskInfo(d.queue, id)
		if errors.Is(err, asynq.ErrTaskNotFound) || err == nil && copies(info, d) {
			return id, nil
		}
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return "", fmt.Errorf("read task: %w", err)
		}
	}
}

// copies says whether the task is a copy of d's that is still to run.
func copies(info *asynq.TaskInfo, d *delivery) bool {
	return info.State != asynq.TaskStateArchived && info.State != asynq.TaskStateCompleted &&
		info.Headers[headerOriginal] == d.id && info.Type == d.task.Type() && bytes.Equal(info.Payload, d.task.Payload())
}

// enqueueCopy sends the copy, to run no later than the safety net of the wait. The copy of an unlimited task is in no
// waitlist, so asynq delivers it as soon as the wait is over. A copy that exists already is fine.
func (g *guard) enqueueCopy(ctx context.Context, d *delivery, id string, wait time.Duration) error {
	headers, err := successorHeaders(d)
	if err != nil {
		return err
	}
	info, err := g.inspector.GetTaskInfo(d.queue, d.id)
	if err != nil {
		return fmt.Errorf("read task: %w", err)
	}
	own := tasks.Options{
		ID: id, Queue: d.queue, MaxRetry: d.maxRetry - d.retried, Timeout: info.Timeout, Retention: info.Retention,
	}
	if own.MaxRetry <= 0 {
		own.MaxRetry = tasks.NoRetry
	}
	after := wait + wholeSecond
	if len(d.claims) > 0 {
		after = engine.RetryDelay(d.retried, &engine.DeferredError{Delay: wait}, d.task)
	}
	options := append(envelope.Asynq(own), asynq.ProcessIn(after))
	if !info.Deadline.IsZero() {
		options = append(options, asynq.Deadline(info.Deadline))
	}
	_, err = g.enqueuer.EnqueueContext(ctx, asynq.NewTaskWithHeaders(d.task.Type(), d.task.Payload(), headers), options...)
	if errors.Is(err, asynq.ErrTaskIDConflict) {
		return nil
	}
	return err
}

// successorHeaders are the task's own, and ours: the copy has room to wait.
func successorHeaders(d *delivery) (map[string]string, error) {
	headers := maps.Clone(d.task.Headers())
	if headers == nil {
		headers = map[string]string{}
	}
	headers[headerOriginal] = d.id
	headers[envelope.HeaderVersion] = strconv.Itoa(envelope.Version)
	if len(d.claims) == 0 {
		return headers, nil
	}
	charges := d.claims.Charges()
	for i := range charges {
		charges[i].Shard, charges[i].Held = 0, "" // the waitlist decides
	}
	text, err := json.Marshal(charges)
	if err != nil {
		return nil, fmt.Errorf("encode charges: %w", err)
	}
	headers[envelope.HeaderCharges] = string(text)
	return headers, nil
}

// nextID is id~1, and id~2 after it.
func nextID(id string) string {
	if i := strings.LastIndex(id, "~"); i >= 0 {
		if n, err := strconv.Atoi(id[i+1:]); err == nil && n > 0 {
			return id[:i+1] + strconv.Itoa(n+1)
		}
	}
	return id + "~1"
}
