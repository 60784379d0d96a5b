package blocking

import (
	"context"
	"errors"

	"github.com/headway-go/headway/internal/calls/pause"
	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/bench/contest"
	"github.com/headway-go/headway/bench/peers/asynqqueue"
	"github.com/headway-go/headway/bench/peers/sharedlimit"
)

type sleeping struct{}

// Sleep returns a contestant whose handler asks redis_rate until it allows the task. Between requests it sleeps for
// RetryAfter. The whole fleet shares one limit.
func Sleep() contest.Contestant { return sleeping{} }

// Name implements contest.Contestant.
func (sleeping) Name() string { return "blocking-redis-rate" }

// About implements contest.Contestant.
func (sleeping) About() string {
	return "asynq, the handler waits: redis_rate (GCRA in Redis), asked again after RetryAfter until it allows the task"
}

// Producer implements contest.Contestant.
func (sleeping) Producer(_ context.Context, env contest.Env, _ *contest.Probe) (contest.Producer, error) {
	return asynqqueue.NewProducer(env)
}

// Work implements contest.Contestant.
func (sleeping) Work(ctx context.Context, env contest.Env, probe *contest.Probe) error {
	limiter, err := sharedlimit.New(env)
	if err != nil {
		return err
	}
	handle := func(ctx context.Context, task contest.Task) error {
		if err := take(ctx, limiter, task); err != nil {
			return err
		}
		_, err := probe.Call(ctx, task)
		return err
	}
	return errors.Join(asynqqueue.Serve(ctx, env, probe, asynq.Config{}, handle), limiter.Close())
}

// take waits until the task may start.
func take(ctx context.Context, limiter *sharedlimit.Limiter, task contest.Task) error {
	for {
		taken, after, err := limiter.Take(ctx, task)
		if taken || err != nil {
			return err
		}
		if err = pause.For(ctx, after); err != nil {
			return err
		}
	}
}
