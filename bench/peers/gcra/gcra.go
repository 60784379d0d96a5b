// Package gcra is asynq with one limit for the whole fleet. It is the recipe of asynq's wiki page "Rate Limiting"
// with redis_rate as the limiter, used as in the README of redis_rate (Allow, RetryAfter). A refused task comes back
// after the RetryAfter of redis_rate.
package gcra

import (
	"context"
	"errors"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/bench/contest"
	"github.com/headway-go/headway/bench/peers/asynqqueue"
	"github.com/headway-go/headway/bench/peers/sharedlimit"
)

// looks is how often a worker looks for delayed tasks while the burst fills up. At 4 a second, 2 looks use the whole
// limit with 25 deliveries per task.
const looks = 2

type contestant struct {
	name, about string
	settings    func(contest.Env) asynq.Config
}

// AsWritten returns a contestant that retries after RetryAfter, with asynq's own intervals.
func AsWritten() contest.Contestant {
	return contestant{
		name: "asynq-gcra",
		about: "asynq with a limit shared in Redis (redis_rate, GCRA), as both are documented: refused tasks come back " +
			"after RetryAfter, asynq's default intervals",
		settings: func(contest.Env) asynq.Config { return asynq.Config{} },
	}
}

// Tuned returns a contestant that looks for delayed tasks as often as the limit needs.
func Tuned() contest.Contestant {
	return contestant{
		name: "asynq-gcra-tuned",
		about: "the same, tuned: delayed tasks are looked for twice in the time in which the burst fills up (at least " +
			"every 50 ms)",
		settings: func(env contest.Env) asynq.Config { return asynqqueue.Tuned(env, looks) },
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
			return &asynqqueue.RateLimitError{RetryIn: after}
		}
		_, err := probe.Call(ctx, task)
		return err
	}
	return errors.Join(asynqqueue.Serve(ctx, env, probe, asynqqueue.RetryLater(c.settings(env)), handle), limiter.Close())
}
