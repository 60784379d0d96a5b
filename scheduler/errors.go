package scheduler

import (
	"errors"
	"fmt"
	"time"

	"github.com/headway-go/headway/internal/engine"
	"github.com/headway-go/headway/internal/envelope"
	"github.com/headway-go/headway/tasks"
)

var (
	// ErrDeferred is matched by the error of a task that waits: a *DeferredError.
	ErrDeferred = engine.ErrDeferred
	// ErrInvalidConfig is matched by every fault of a Config.
	ErrInvalidConfig = errors.New("scheduler: invalid config")
	// ErrStopped is matched by the Wait of a direct caller whose Scheduler was stopped.
	ErrStopped = engine.ErrStopped
	// ErrDuplicate is matched if a task with the key of tasks.Options.Unique waits or runs already: a *DuplicateError.
	ErrDuplicate = errors.New("scheduler: duplicate")
)

// DuplicateError refuses a task because another one with its key waits or runs. It matches ErrDuplicate.
type DuplicateError struct {
	// Key is that of Unique, Task the task that has it.
	Key  string
	Task Task
}

func (e *DuplicateError) Error() string {
	return fmt.Sprintf("task %s with the unique key %q waits or runs already", e.Task, e.Key)
}

// Is makes the error match ErrDuplicate.
func (e *DuplicateError) Is(target error) bool { return target == ErrDuplicate }

// TooLateError refuses a task that is expected to start later than it has to. It matches tasks.ErrExpired.
type TooLateError struct {
	// Bucket is the bucket whose waitlist is too long.
	Bucket string
	// Expected is when the task would start, StartBy when it has to.
	Expected, StartBy time.Time
}

func (e *TooLateError) Error() string {
	return fmt.Sprintf("it has to start by %s, and limit %s is expected to let it start at %s",
		envelope.ClockText(e.StartBy), e.Bucket, envelope.ClockText(e.Expected))
}

// Is makes the error match tasks.ErrExpired.
func (e *TooLateError) Is(target error) bool { return target == tasks.ErrExpired }

// ItemError is the error of one task of EnqueueMany.
type ItemError struct {
	// Index is the position of the task in the arguments, from zero.
	Index int
	Err   error
}

func (e *ItemError) Error() string { return fmt.Sprintf("task %d: %v", e.Index, e.Err) }

// Unwrap returns the error without the index.
func (e *ItemError) Unwrap() error { return e.Err }
