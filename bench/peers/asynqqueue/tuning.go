package asynqqueue

import (
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/bench/contest"
)

// shortest is the shortest interval that tuning uses; without limits there is no reason for a longer one.
const shortest = 50 * time.Millisecond

// CheckInterval is how often a worker should look for tasks that were told to come back: so many times (looks) in the time in which the
// burst of a limit fills up, so that none of it is lost, and not more often, as each look delivers all who wait.
//
// It, not the delay that a handler asks for, is what brings tasks back within a second: asynq keeps the times of delayed tasks in whole
// seconds, rounded down.
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

// Tuned are settings with that interval.
func Tuned(env contest.Env, looks int) asynq.Config {
	return asynq.Config{TaskCheckInterval: shortest, DelayedTaskCheckInterval: CheckInterval(env, looks)}
}
