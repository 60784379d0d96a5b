// Package sharedlimit is a limiter that peers share in Redis: github.com/go-redis/redis_rate, which implements GCRA
// with one script per request.
package sharedlimit

import (
	"context"
	"fmt"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/bench/contest"
)

// Limiter takes tokens from the limits of one run. It is safe for concurrent use.
type Limiter struct {
	client  *redis.Client
	limiter *redis_rate.Limiter
	limits  map[string]redis_rate.Limit
}

// New returns a limiter on the Redis of env. Close it at the end.
func New(env contest.Env) (*Limiter, error) {
	options, err := redis.ParseURL(env.RedisURL)
	if err != nil {
		return nil, fmt.Errorf("sharedlimit: address of Redis: %w", err)
	}
	options.DisableIdentity = true
	client := redis.NewClient(options)
	l := &Limiter{client: client, limiter: redis_rate.NewLimiter(client), limits: map[string]redis_rate.Limit{}}
	for _, limit := range env.Limits {
		l.limits[limit.Key] = exact(limit)
	}
	return l, nil
}

// exact returns the limit in whole numbers, for redis_rate: 2.5 tokens a second are 2500 in 1000 s.
func exact(limit contest.Limit) redis_rate.Limit {
	const millis = 1000
	if whole := int(limit.Rate); float64(whole) == limit.Rate {
		return redis_rate.Limit{Rate: whole, Burst: int(limit.Burst), Period: time.Second}
	}
	return redis_rate.Limit{Rate: int(limit.Rate * millis), Burst: int(limit.Burst), Period: millis * time.Second}
}

// Take takes the tokens that the task reserves, or returns the time until the next try. A task without a limit may
// always start.
func (l *Limiter) Take(ctx context.Context, task contest.Task) (taken bool, again time.Duration, err error) {
	limit, ok := l.limits[task.Key]
	if !ok {
		return true, 0, nil
	}
	answer, err := l.limiter.AllowN(ctx, task.Key, limit, task.Reserved)
	if err != nil {
		return false, 0, fmt.Errorf("sharedlimit: take %d of %s: %w", task.Reserved, task.Key, err)
	}
	return answer.Allowed > 0, answer.RetryAfter, nil
}

// Close closes the connections.
func (l *Limiter) Close() error { return l.client.Close() }
