// Package rawasynq is asynq without any limit: the upper bound of the others.
package rawasynq

import (
	"context"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/bench/contest"
	"github.com/headway-go/headway/bench/peers/asynqqueue"
)

// The poll intervals are the intervals of Headway's workers, so that both poll equally often. asynq's own are 1 s and
// 5 s.
const (
	TaskCheckInterval        = 50 * time.Millisecond
	DelayedTaskCheckInterval = time.Second
)

type contestant struct{}

// New returns the contestant.
func New() contest.Contestant { return contestant{} }

// Name implements contest.Contestant.
func (contestant) Name() string { return "asynq-raw" }

// About implements contest.Contestant.
func (contestant) About() string {
	return "asynq without any limit, the ceiling; it looks for work as often as Headway's workers do"
}

// Refuses implements contest.Picky.
func (contestant) Refuses(work contest.Work) string {
	if len(work.Limits) > 0 {
		return "keeps no limit"
	}
	return ""
}

// Producer implements contest.Contestant.
func (contestant) Producer(_ context.Context, env contest.Env, _ *contest.Probe) (contest.Producer, error) {
	return asynqqueue.NewProducer(env)
}

// Work implements contest.Contestant.
func (contestant) Work(ctx context.Context, env contest.Env, probe *contest.Probe) error {
	settings := asynq.Config{TaskCheckInterval: TaskCheckInterval, DelayedTaskCheckInterval: DelayedTaskCheckInterval}
	return asynqqueue.Serve(ctx, env, probe, settings, func(ctx context.Context, task contest.Task) error {
		_, err := probe.Call(ctx, task)
		return err
	})
}
