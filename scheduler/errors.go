package scheduler

import (
	"fmt"
	"time"

	"github.com/headway-go/headway/internal/line/dispatcher"
	"github.com/headway-go/headway/internal/line/envelope"
	"github.com/headway-go/headway/internal/line/waitlist"
	"github.com/headway-go/headway/tasks"
)

// ErrStopped is matched by the Wait of a direct caller whose Scheduler was stopped.
var ErrStopped = dispatcher.ErrStopped

// DuplicateError refuses a task because another one with its key (tasks.Options.Unique) waits or runs.
type DuplicateError struct {
	// Key is that of Unique.
	Key string
	// Queue and ID name the task that has it.
	Queue, ID string
}

func (e *DuplicateError) Error() string {
	holder := waitlist.Task{Queue: e.Queue, ID: e.ID}
	return fmt.Sprintf("task %s with the unique key %q waits or runs already", holder, e.Key)
}

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
