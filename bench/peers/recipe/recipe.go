// Package recipe is the recipe for limits in asynq's documentation: the page "Rate Limiting" of its wiki. Each
// process has a limiter of golang.org/x/time/rate. If the limiter refuses a task, the handler returns a
// RateLimitError. IsFailure does not count that error, and RetryDelayFunc returns its delay.
package recipe

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/hibiken/asynq"
	"golang.org/x/time/rate"

	"github.com/headway-go/headway/bench/contest"
	"github.com/headway-go/headway/bench/peers/asynqqueue"
)

// looks is how often a worker looks for delayed tasks while the burst fills up. It is more than with a shared limit.
// One process may take all tasks of a look, and the share of the other one is lost. At 4 a second, 2 looks use 69 %
// of the limit, 10 looks 99 %.
const looks = 10

type contestant struct {
	name, about string
	tuned       bool
}

// AsWritten returns the page's example: 0 to 9 whole seconds until the next try, asynq's own intervals, and the whole
// limit in each process. The page mentions that the limit is per server instance.
func AsWritten() contest.Contestant {
	return contestant{
		name: "asynq-recipe",
		about: "asynq with the example of its wiki page \"Rate Limiting\", as written: x/time/rate with the whole limit in " +
			"each process, refused tasks come back after 0 to 9 s, asynq's default intervals",
	}
}

// Tuned returns the same, with a share of the limit in each process. Refused tasks are delivered again at the next
// look, as often as the limit needs. Refusals use no retries, so the number of retries needs no tuning.
func Tuned() contest.Contestant {
	return contestant{
		name: "asynq-recipe-tuned",
		about: "the same, tuned: the limit divided by the number of processes. Refused tasks come back at the next look, " +
			"ten times in the time in which the burst fills up (at least every 50 ms)",
		tuned: true,
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
	settings, share, retryIn := asynq.Config{}, 1, wholeSeconds
	if c.tuned {
		settings, share = asynqqueue.Tuned(env, looks), env.Workers
		retryIn = func() time.Duration { return settings.DelayedTaskCheckInterval }
	}
	limiters := asynqqueue.Limiters(env, share)
	return asynqqueue.Serve(ctx, env, probe, asynqqueue.RetryLater(settings), func(
		ctx context.Context, task contest.Task,
	) error {
		if !allowed(limiters[task.Key], task) {
			return &asynqqueue.RateLimitError{RetryIn: retryIn()}
		}
		_, err := probe.Call(ctx, task)
		return err
	})
}

// wholeSeconds returns the page's delay: 0 to 9 s.
func wholeSeconds() time.Duration {
	return time.Duration(rand.IntN(10)) * time.Second //nolint:gosec // spreads retries, guards nothing
}

// allowed returns whether the task may start. A task without a limit always may.
func allowed(limiter *rate.Limiter, task contest.Task) bool {
	return limiter == nil || limiter.AllowN(time.Now(), task.Reserved)
}
