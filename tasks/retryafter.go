package tasks

import (
	"time"

	"github.com/headway-go/headway/reservations"
)

// RetryAfter returns an error for a call that the provider refused, with a request to wait for d. A handler returns
// it. The worker then blocks the bucket of the task's last charge for d, so that nothing starts there in the whole
// fleet. The task is the first to start after that, and uses no retry. An unlimited task waits for d alone. A d above
// reservations.MaxBlockMost is cut to it. With a d of zero or less, the error is a failure like any other. The error
// matches all that err matches; err may be nil. If err is permanent, the task is archived at once and nothing is
// blocked.
func RetryAfter(d time.Duration, err error) error { return reservations.RetryAfter(d, err) }
