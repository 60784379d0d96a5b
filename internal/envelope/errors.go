package envelope

import (
	"fmt"

	"github.com/hibiken/asynq"

	"github.com/headway-go/headway/tasks"
)

// EncodeError is the reason why arguments can't be encoded as a task. Nothing was sent.
type EncodeError struct {
	// Type is the task type. It is empty if there is none.
	Type string
	Err  error
}

func (e *EncodeError) Error() string { return fmt.Sprintf("encode task %q: %v", e.Type, e.Err) }

// Unwrap returns the cause, which matches the kind of fault.
func (e *EncodeError) Unwrap() error { return e.Err }

// DecodeError is the reason why this program can't run a task. It is permanent.
type DecodeError struct {
	// Type is the type of the task.
	Type string
	// Header is the malformed header. It is empty if the payload or the type is at fault.
	Header string
	Err    error
}

func (e *DecodeError) Error() string {
	if e.Header == "" {
		return fmt.Sprintf("decode task %q: %v", e.Type, e.Err)
	}
	return fmt.Sprintf("decode task %q: header %s: %v", e.Type, e.Header, e.Err)
}

// Unwrap returns the cause: ErrUnknownVersion, ErrWrongType, ErrBadPayload, ErrBadHeader, ErrTooManyCharges or
// ErrDuplicateCharge, with details.
func (e *DecodeError) Unwrap() error { return e.Err }

// Is makes the error match ErrPermanent and asynq.SkipRetry.
func (e *DecodeError) Is(target error) bool {
	return target == tasks.ErrPermanent || target == asynq.SkipRetry
}
