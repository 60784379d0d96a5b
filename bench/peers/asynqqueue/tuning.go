package asynqqueue

import (
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/bench/contest"
)

// shortest is the shortest interval that tuning uses. It is the interval without limits.
const shortest = 50 * time.Millisecond

// CheckInterval returns how often a worker should look for delayed tasks: looks times in the time in which the burst
// of a limit fills up, so that no token is lost. More looks only cost deliveries, because each look delivers all
// waiting tasks.
//
// This interval, not the delay of a handler, decides when a task returns within a second: asynq stores the times of
// delayed tasks in whole seconds, rounded down.
func CheckInterval(env contest.Env, looks int) time.Duration {
	if len(env.Limits) == 0 {
		return shortest
	}
	interval := time.Second
	for _, l := range env.Limits {
		fills := time.Duration(l.Burst / l.Rate * float64(time.Second))
		interval = min(interval, fills/time.Duration(looks))
	}
	return max(interval, shortest)
}

// Tuned returns settings with that interval.
func Tuned(env contest.Env, looks int) asynq.Config {
	return asynq.Config{TaskCheckInterval: shortest, DelayedTaskCheckInterval: CheckInterval(env, looks)}
}
