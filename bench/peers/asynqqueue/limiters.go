package asynqqueue

import (
	"golang.org/x/time/rate"

	"github.com/headway-go/headway/bench/contest"
)

// Limiters returns a limiter of x/time/rate for each limit of env, by key. Each of share processes gets its part of
// the rate and of the burst (at least 1 token). A share of 1 gives every process the whole limit.
func Limiters(env contest.Env, share int) map[string]*rate.Limiter {
	limiters := make(map[string]*rate.Limiter, len(env.Limits))
	for _, l := range env.Limits {
		limiters[l.Key] = rate.NewLimiter(rate.Limit(l.Rate/float64(share)), max(int(l.Burst)/share, 1))
	}
	return limiters
}
