package reservations

import (
	"fmt"
	"time"
)

// RetryAfterError is a call that the provider refused, and named a time for. See RetryAfter.
type RetryAfterError struct {
	// After is how long the provider asks to wait, from now. Zero and less name no time: then this is a failure like
	// any other.
	After time.Duration
	// Err is what the provider said; nil where there is nothing to say.
	Err error
}

// RetryAfter is what a call under Do returns when the provider refused it and asked to be left alone for d, e.g. by a
// 429: nothing starts in the bucket of the last charge for d. A d of more than MaxBlockMost is cut to it; zero and less
// block nothing. The error matches what err matches, which may be nil. Handlers of tasks return tasks.RetryAfter.
func RetryAfter(d time.Duration, err error) error {
	return &RetryAfterError{After: min(d, MaxBlockMost), Err: err}
}

func (e *RetryAfterError) Error() string {
	if e.Err != nil {
		return e.Err.Error()
	}
	return fmt.Sprintf("refused by the provider, retry after %v", e.After)
}

// Unwrap returns what the provider said.
func (e *RetryAfterError) Unwrap() error { return e.Err }
