package tasks

import (
	"errors"

	"github.com/hibiken/asynq"
)

var (
	// ErrPermanent is matched by every failure that a retry cannot fix: also a task that does not decode.
	ErrPermanent = errors.New("tasks: permanent failure")
	// ErrInvalidOptions means that options are invalid. The joined errors name each field.
	ErrInvalidOptions = errors.New("tasks: invalid options")
	// ErrBadPayload means that arguments can't be encoded, or that a payload is not the JSON of the arguments.
	ErrBadPayload = errors.New("tasks: bad payload")
	// ErrExpired means that a task did not, or cannot, start by Options.StartBy.
	ErrExpired = errors.New("tasks: expired")
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

type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }
func (e *permanentError) Is(target error) bool {
	return target == ErrPermanent || target == asynq.SkipRetry
}
