// Package recipe is how asynq's documentation says to keep a limit: the page "Rate Limiting" of its wiki. A limiter of
// golang.org/x/time/rate in each process; a task that it does not allow returns a RateLimitError, which IsFailure does not count and
// RetryDelayFunc turns into the delay that the error names.
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

// What tuning changed. Whoever is refused comes back after a random part of retryIn; the queue is looked at as often as that is
// worth it.
const (
	retryIn       = 250 * time.Millisecond
	checkInterval = 20 * time.Millisecond
)

type contestant struct {
	name, about string
	settings    asynq.Config
	// retryIn is when a refused task is to be delivered again.
	retryIn func() time.Duration
	// divided gives each process its share of the limit.
	divided bool
}

// AsWritten is the page's example: 0 to 9 whole seconds until the next try, asynq's own intervals, and the whole limit in each
// process (the page says that it is per server instance, and leaves it at that).
func AsWritten() contest.Contestant {
	return contestant{
		name: "asynq-recipe",
		about: "asynq with the example of its wiki page \"Rate Limiting\", as written: x/time/rate with the whole limit in each process, " +
			"refused tasks come back after 0 to 9 s, asynq's default intervals",
		retryIn: func() time.Duration { return time.Duration(rand.IntN(10)) * time.Second }, //nolint:gosec // spreads retries, guards nothing
	}
}

// Tuned is the same with each process given its share of the limit, retries within a quarter of a second, and a queue that is looked at
// often enough for that. Refusals never use up retries, so their number needs no tuning.
func Tuned() contest.Contestant {
	return contestant{
		name: "asynq-recipe-tuned",
		about: "the same, tuned: the limit divided by the number of processes, refused tasks come back after up to " + retryIn.String() +
			", delayed tasks are looked at every " + checkInterval.String(),
		settings: asynq.Config{TaskCheckInterval: checkInterval, DelayedTaskCheckInterval: checkInterval},
		retryIn:  func() time.Duration { return rand.N(retryIn) }, //nolint:gosec // spreads retries, guards nothing
		divided:  true,
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
	share := 1
	if c.divided {
		share = env.Workers
	}
	limiters := asynqqueue.Limiters(env, share)
	return asynqqueue.Serve(ctx, env, probe, asynqqueue.RetryLater(c.settings), func(ctx context.Context, task contest.Task) error {
		if !allowed(limiters[task.Key], task) {
			return &asynqqueue.RateLimitError{RetryIn: c.retryIn()}
		}
		_, err := probe.Call(ctx, task)
		return err
	})
}

// allowed says whether the task may start; one without a limit always may.
func allowed(limiter *rate.Limiter, task contest.Task) bool {
	return limiter == nil || limiter.AllowN(time.Now(), task.Reserved)
}
