package asynqqueue

import (
	"errors"
	"fmt"
	"time"

	"github.com/hibiken/asynq"
)

// RateLimitError is what a handler returns for a task that may not start yet: asynq's documentation (wiki, "Rate Limiting") has
// the application define it.
type RateLimitError struct {
	// RetryIn is when the task is to be delivered again.
	RetryIn time.Duration
}

// Error says when the task comes back.
func (e *RateLimitError) Error() string { return fmt.Sprintf("rate limited: again in %v", e.RetryIn) }

// RetryLater adds to settings the two functions by which asynq's documentation keeps tasks that may not start yet: a RateLimitError is
// no failure, so it uses up no retry however often it comes, and it says itself when the task is delivered again.
func RetryLater(settings asynq.Config) asynq.Config {
	settings.IsFailure = func(err error) bool {
		_, limited := errors.AsType[*RateLimitError](err)
		return !limited
	}
	settings.RetryDelayFunc = func(n int, err error, task *asynq.Task) time.Duration {
		if limited, ok := errors.AsType[*RateLimitError](err); ok {
			return limited.RetryIn
		}
		return asynq.DefaultRetryDelayFunc(n, err, task)
	}
	return settings
}
