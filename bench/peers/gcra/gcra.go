// Package gcra is asynq with one limit for the whole fleet: the recipe of asynq's wiki page "Rate Limiting", its limiter replaced
// by redis_rate, as the README of redis_rate shows it (Allow, RetryAfter). A refused task comes back when redis_rate says so.
package gcra

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/bench/contest"
	"github.com/headway-go/headway/bench/peers/asynqqueue"
	"github.com/headway-go/headway/bench/peers/sharedlimit"
)

// What tuning changed: whoever is refused comes back up to spread after the time that redis_rate named, and the queue is looked at
// as often as that is worth it. redis_rate names the same time to everybody who waits, so without spreading all would come at once.
const (
	spread        = 250 * time.Millisecond
	checkInterval = 20 * time.Millisecond
)

type contestant struct {
	name, about string
	settings    asynq.Config
	// retryIn is when a task is to be delivered again that redis_rate told to wait so long.
	retryIn func(after time.Duration) time.Duration
}

// AsWritten retries after RetryAfter, with asynq's own intervals.
func AsWritten() contest.Contestant {
	return contestant{
		name: "asynq-gcra",
		about: "asynq with a limit shared in Redis (redis_rate, GCRA), as both are documented: refused tasks come back after RetryAfter, " +
			"asynq's default intervals",
		retryIn: func(after time.Duration) time.Duration { return after },
	}
}

// Tuned spreads the retries, and looks at the queue often enough for them.
func Tuned() contest.Contestant {
	return contestant{
		name: "asynq-gcra-tuned",
		about: "the same, tuned: refused tasks come back up to " + spread.String() + " after RetryAfter, delayed tasks are looked at every " +
			checkInterval.String(),
		settings: asynq.Config{TaskCheckInterval: checkInterval, DelayedTaskCheckInterval: checkInterval},
		retryIn:  func(after time.Duration) time.Duration { return after + rand.N(spread) }, //nolint:gosec // spreads retries, guards nothing
	}
}

// Name implements contest.Contestant.
func (c contestant) Name() string { return c.name }

// About implements contest.Contestant.
func (c contestant) About() string { return c.about }

// Producer implements contest.Contestant.
func (contestant) Producer(_ context.Context, env contest.Env, _ *contest.Probe) (contest.Producer, error) {
	return asynqqueue.NewProducer(env)
}

// Work implements contest.Contestant.
func (c contestant) Work(ctx context.Context, env contest.Env, probe *contest.Probe) error {
	limiter, err := sharedlimit.New(env)
	if err != nil {
		return err
	}
	handle := func(ctx context.Context, task contest.Task) error {
		switch taken, after, err := limiter.Take(ctx, task); {
		case err != nil:
			return err
		case !taken:
			return &asynqqueue.RateLimitError{RetryIn: c.retryIn(after)}
		}
		_, err := probe.Call(ctx, task)
		return err
	}
	return errors.Join(asynqqueue.Serve(ctx, env, probe, asynqqueue.RetryLater(c.settings), handle), limiter.Close())
}
