// Package asynqqueue is the shared part of the peers on asynq: sending tasks, and a server that runs a handler. Their
// own packages contain their differences and quote their documentation.
package asynqqueue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/bench/contest"
)

// taskType is the type of all tasks.
const taskType = "bench"

// producer enqueues tasks one by one, because asynq has no bulk call.
type producer struct{ client *asynq.Client }

// NewProducer returns a producer of tasks with asynq's own defaults. It fails if the Redis address of env is invalid.
func NewProducer(env contest.Env) (contest.Producer, error) {
	redis, err := asynq.ParseRedisURI(env.RedisURL)
	if err != nil {
		return nil, fmt.Errorf("asynqqueue: address of Redis: %w", err)
	}
	return &producer{client: asynq.NewClient(redis)}, nil
}

// Enqueue implements contest.Producer.
func (p *producer) Enqueue(ctx context.Context, tasks []contest.Task) error {
	for _, task := range tasks {
		payload, err := json.Marshal(task)
		if err != nil {
			return fmt.Errorf("asynqqueue: task %d: %w", task.Seq, err)
		}
		if _, err = p.client.EnqueueContext(ctx, asynq.NewTask(taskType, payload),
			asynq.Queue(contest.QueueName)); err != nil {
			return fmt.Errorf("asynqqueue: enqueue task %d: %w", task.Seq, err)
		}
	}
	return nil
}

// Close implements contest.Producer.
func (p *producer) Close() error { return p.client.Close() }

// Handler handles a delivered task for a peer: it takes tokens from the limit and calls, or returns an error so that
// asynq delivers the task again.
type Handler func(ctx context.Context, task contest.Task) error

// Serve is one worker process: a server with these settings, until ctx ends. It sets concurrency and queues from env,
// and counts each delivery before it calls handle.
func Serve(ctx context.Context, env contest.Env, probe *contest.Probe, settings asynq.Config, handle Handler) error {
	redis, err := asynq.ParseRedisURI(env.RedisURL)
	if err != nil {
		return fmt.Errorf("asynqqueue: address of Redis: %w", err)
	}
	settings.Concurrency = env.Slots
	settings.Queues = map[string]int{contest.QueueName: 1}
	settings.LogLevel = asynq.ErrorLevel
	server := asynq.NewServer(redis, settings)
	if err = server.Start(counting(probe, handle)); err != nil {
		return fmt.Errorf("asynqqueue: start the server: %w", err)
	}
	probe.Ready()
	<-ctx.Done()
	server.Shutdown()
	return nil
}

func counting(probe *contest.Probe, handle Handler) asynq.Handler {
	return asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
		probe.Delivered()
		var task contest.Task
		if err := json.Unmarshal(t.Payload(), &task); err != nil {
			return errors.Join(fmt.Errorf("asynqqueue: payload: %w", err), asynq.SkipRetry)
		}
		return handle(ctx, task)
	})
}
