package scheduler

import (
	"errors"
	"fmt"
)

var (
	// ErrDeferred is matched by the error of a task that waits: a *DeferredError.
	ErrDeferred = errors.New("scheduler: deferred")
	// ErrInvalidConfig is matched by every fault of a Config.
	ErrInvalidConfig = errors.New("scheduler: invalid config")
	// ErrStopped is matched by the Wait of a direct caller whose Scheduler was stopped.
	ErrStopped = errors.New("scheduler: stopped")
	// ErrInvalidOption is matched if an option of Enqueue or EnqueueMany has an invalid value, or contradicts another.
	ErrInvalidOption = errors.New("scheduler: invalid option")
)

// ItemError is the error of one task of EnqueueMany.
type ItemError struct {
	// Index is the position of the task in the arguments, from zero.
	Index int
	Err   error
}

func (e *ItemError) Error() string { return fmt.Sprintf("task %d: %v", e.Index, e.Err) }

// Unwrap returns the error without the index.
func (e *ItemError) Unwrap() error { return e.Err }
