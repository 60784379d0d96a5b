package worker

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

var (
	// errUnknownType is matched by the reason with which a task is archived if its type has no handler in the fleet. That
	// happens only where Config.Unserved says so.
	errUnknownType = errors.New("worker: no handler for this task type")
	// ErrNoHandlers is returned by Start when Handle was never called: the worker could serve no task.
	ErrNoHandlers = errors.New("worker: no handlers")
	// errStarted is returned by Start when the worker has been started before. A worker can't be started again.
	errStarted = errors.New("worker: started before")
	// ErrLeftBehind is matched when Stop returned before everything had ended.
	ErrLeftBehind = errors.New("worker: shutdown deadline exceeded with tasks or settlements in progress")
)

// PanicError is the failure of a handler that panicked. asynq.IsPanicError does not know it.
type PanicError struct {
	// Value is what the handler panicked with.
	Value any
	// Stack is that of the handler, as runtime/debug.Stack prints it. It was logged, and is not part of the text.
	Stack string
}

func (e *PanicError) Error() string { return fmt.Sprintf("handler panicked: %v", e.Value) }

// Unwrap returns the value where it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// list shows the first few.
func list(ids []string) string {
	const shown = 5
	slices.Sort(ids)
	if len(ids) > shown {
		return strings.Join(ids[:shown], ", ") + ", ..."
	}
	return strings.Join(ids, ", ")
}
