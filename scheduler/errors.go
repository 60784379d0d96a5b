package scheduler

import (
	"errors"
	"fmt"
)

var (
	// ErrDeferred is matched by the error of a task that goes back to the queue until its time: a *DeferredError.
	ErrDeferred = errors.New("scheduler: deferred")
	// ErrInvalidConfig is matched by every fault of a Config.
	ErrInvalidConfig = errors.New("scheduler: invalid config")
	// ErrInvalidOption is matched when an option of Enqueue or EnqueueMany has a value it can't have, or contradicts another.
	ErrInvalidOption = errors.New("scheduler: invalid option")
)

// ItemError says which of the tasks given to EnqueueMany is at fault. It unwraps to the fault itself.
type ItemError struct {
	// Index is the position in the slice that was given, from zero.
	Index int
	Err   error
}

func (e *ItemError) Error() string { return fmt.Sprintf("task %d: %v", e.Index, e.Err) }

// Unwrap returns the fault of the task.
func (e *ItemError) Unwrap() error { return e.Err }
