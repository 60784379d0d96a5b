// Package asynqqueue is what the peers that run on asynq have in common: sending tasks, and a server that runs a handler. What
// makes them different, and what their documentation says, is in their own packages.
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

// producer enqueues one task after the other: asynq has no call for many.
type producer struct{ client *asynq.Client }

// NewProducer returns a producer of tasks with asynq's own defaults. It fails when the Redis of env has no valid address.
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
		if _, err = p.client.EnqueueContext(ctx, asynq.NewTask(taskType, payload), asynq.Queue(contest.QueueName)); err != nil {
			return fmt.Errorf("asynqqueue: enqueue task %d: %w", task.Seq, err)
		}
	}
	return nil
}

// Close implements contest.Producer.
func (p *producer) Close() error { return p.client.Close() }

// Handler does what a peer does with a task that was delivered: take from its limit, call, or give an error that has asynq deliver
// it again.
type Handler func(ctx context.Context, task contest.Task) error

// Serve is one worker process: a server with these settings, until ctx ends. It sets concurrency and queues to those of env,
// and counts each delivery before handle sees it.
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
