package tasks

import (
	"time"

	"github.com/headway-go/headway/reservations"
)

// RetryAfterError is a call that the provider refused, and named a time for. See RetryAfter.
type RetryAfterError = reservations.RetryAfterError

// RetryAfter is what a handler returns when the provider refused the call and asked to be left alone for d. A worker then lets
// nothing start in the task's bucket (of several, that of its last charge) for d, in the whole fleet, and sends the task back to come first after that, with no retry
// used. An unlimited task comes back after d alone. A d of more than reservations.MaxBlockMost is cut to it; zero and less name no time, and
// then the error is a failure like any other. The error matches what err matches, which may be nil; where that is
// permanent, the task is archived at once and nothing is blocked.
func RetryAfter(d time.Duration, err error) error { return reservations.RetryAfter(d, err) }
