package tasks

import (
	"errors"
	"time"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/reservations"
)

var (
	// ErrPermanent is matched by every failure that a retry cannot fix: also a task that does not decode.
	ErrPermanent = errors.New("tasks: permanent failure")
	// ErrTooManyCharges means that a task has more than MaxCharges charges.
	ErrTooManyCharges = errors.New("tasks: a task can have 8 charges at most")
	// ErrDuplicateCharge means that two charges of a task are for the same limit and key.
	ErrDuplicateCharge = reservations.ErrDuplicateCharge
	// ErrInvalidOptions means that options are invalid. The joined errors name each field.
	ErrInvalidOptions = errors.New("tasks: invalid options")
	// ErrUnknownVersion means that an unknown version of Headway encoded the task.
	ErrUnknownVersion = errors.New("tasks: unknown version")
	// ErrWrongType means that a task was decoded as another type than its own.
	ErrWrongType = errors.New("tasks: wrong task type")
	// ErrBadPayload means that arguments can't be encoded, or that a payload is not the JSON of the arguments.
	ErrBadPayload = errors.New("tasks: bad payload")
	// ErrExpired means that a task did not, or cannot, start by Options.StartBy.
	ErrExpired = errors.New("tasks: expired")
	// ErrBadHeader means that a header of Headway does not parse.
	ErrBadHeader = errors.New("tasks: bad header")
)

// Permanent marks err as a failure that a retry cannot fix: the task is archived at once, with the text of err. The
// result matches ErrPermanent, asynq.SkipRetry and all that err matches. Nil stays nil, and a permanent error stays
// unchanged.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, ErrPermanent) && errors.Is(err, asynq.SkipRetry) {
		return err
	}
	return &permanentError{err: err}
}

// RetryAfter returns an error for a call that the provider refused, with a request to wait for d. A handler returns
// it. The worker then blocks the bucket of the task's last charge for d, so that nothing starts there in the whole
// fleet. The task is the first to start after that, and uses no retry. An unlimited task waits for d alone. A d above
// reservations.MaxBlockMost is cut to it. Zero and less name no time: the bucket pauses as
// [reservations.Limiter.Refuse] says. The error matches all that err matches; err may be nil. If err is permanent, the
// task is archived at once and nothing is blocked. [reservations.Refused] has a reason as well.
func RetryAfter(d time.Duration, err error) error { return reservations.RetryAfter(d, err) }

type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }
func (e *permanentError) Is(target error) bool {
	return target == ErrPermanent || target == asynq.SkipRetry
}
