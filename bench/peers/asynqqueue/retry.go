package asynqqueue

import (
	"errors"
	"fmt"
	"time"

	"github.com/hibiken/asynq"
)

// RateLimitError is the error of a handler for a task that may not start yet. In asynq's documentation (wiki, "Rate
// Limiting") the application defines it.
type RateLimitError struct {
	// RetryIn is the time until the next delivery of the task.
	RetryIn time.Duration
}

// Error names the time until the next delivery.
func (e *RateLimitError) Error() string { return fmt.Sprintf("rate limited: again in %v", e.RetryIn) }

// RetryLater adds the two functions of asynq's documentation for tasks that may not start yet. A RateLimitError is no
// failure, so it uses no retry. Its RetryIn is the delay until the next delivery.
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
