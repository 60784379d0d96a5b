package blocking

import (
	"context"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/bench/contest"
	"github.com/headway-go/headway/bench/peers/asynqqueue"
)

type waiting struct{}

// Wait returns a contestant whose handler calls Limiter.Wait of x/time/rate, as that package's documentation advises
// for callers that wait. Each process has its share of the limit.
func Wait() contest.Contestant { return waiting{} }

// Name implements contest.Contestant.
func (waiting) Name() string { return "blocking-wait" }

// About implements contest.Contestant.
func (waiting) About() string {
	return "asynq, the handler waits: Limiter.Wait of x/time/rate, the limit divided by the number of processes"
}

// Producer implements contest.Contestant.
func (waiting) Producer(_ context.Context, env contest.Env, _ *contest.Probe) (contest.Producer, error) {
	return asynqqueue.NewProducer(env)
}

// Work implements contest.Contestant.
func (waiting) Work(ctx context.Context, env contest.Env, probe *contest.Probe) error {
	limiters := asynqqueue.Limiters(env, env.Workers)
	return asynqqueue.Serve(ctx, env, probe, asynq.Config{}, func(ctx context.Context, task contest.Task) error {
		if limiter := limiters[task.Key]; limiter != nil {
			if err := limiter.WaitN(ctx, task.Reserved); err != nil {
				return err
			}
		}
		_, err := probe.Call(ctx, task)
		return err
	})
}
