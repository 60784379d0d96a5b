package tasks

import (
	"errors"
	"fmt"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/reservations"
)

var (
	// ErrPermanent is matched by every failure that no retry mends: those made by Permanent, and those of Decode and Charges.
	ErrPermanent = errors.New("tasks: permanent failure")
	// ErrTooManyCharges is matched when a task has more than MaxCharges charges.
	ErrTooManyCharges = errors.New("tasks: a task can have 8 charges at most")
	// ErrDuplicateCharge is matched when two charges of a task are for the same limit and key.
	ErrDuplicateCharge = reservations.ErrDuplicateCharge
	// ErrInvalidOptions is matched when options can't be: the joined errors name each field.
	ErrInvalidOptions = errors.New("tasks: invalid options")
	// ErrUnknownVersion is matched when a task was encoded by a version of Headway that this one does not know.
	ErrUnknownVersion = errors.New("tasks: unknown version")
	// ErrWrongType is matched when a task is decoded as another type than it is.
	ErrWrongType = errors.New("tasks: wrong task type")
	// ErrBadPayload is matched when arguments can't be encoded, or a payload is not the JSON of the arguments.
	ErrBadPayload = errors.New("tasks: bad payload")
	// ErrExpired is matched when a task did not start by Options.StartBy, or can't.
	ErrExpired = errors.New("tasks: expired")
	// ErrBadHeader is matched when a header of Headway does not parse.
	ErrBadHeader = errors.New("tasks: bad header")
)

// Permanent marks err as a failure that no retry mends: the task is archived at once, with the text of err. It matches
// ErrPermanent, asynq.SkipRetry and whatever err matches. Nil stays nil; an error that is permanent already stays as it is.
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

// EncodeError says why arguments did not become a task. Nothing was sent.
type EncodeError struct {
	// Type is the task type; empty where there is none.
	Type string
	Err  error
}

func (e *EncodeError) Error() string { return fmt.Sprintf("encode task %q: %v", e.Type, e.Err) }

// Unwrap returns the cause: what it matches tells the kind of fault.
func (e *EncodeError) Unwrap() error { return e.Err }

// DecodeError says why a task can't be run by this program. It is permanent.
type DecodeError struct {
	// Type is the type that the task has.
	Type string
	// Header is the header at fault; empty where it is the payload or the type.
	Header string
	Err    error
}

func (e *DecodeError) Error() string {
	if e.Header == "" {
		return fmt.Sprintf("decode task %q: %v", e.Type, e.Err)
	}
	return fmt.Sprintf("decode task %q: header %s: %v", e.Type, e.Header, e.Err)
}

// Unwrap returns the cause: ErrUnknownVersion, ErrWrongType, ErrBadPayload, ErrBadHeader, ErrTooManyCharges or ErrDuplicateCharge, with details.
func (e *DecodeError) Unwrap() error { return e.Err }

// Is makes the error match ErrPermanent and asynq.SkipRetry.
func (e *DecodeError) Is(target error) bool {
	return target == ErrPermanent || target == asynq.SkipRetry
}
