package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

var (
	// ErrUnknownType is matched by the reason with which a task is archived if its type has no handler in the fleet. That
	// happens ten minutes after a worker got it first.
	ErrUnknownType = errors.New("worker: no handler for this task type")
	// ErrNoHandlers is returned by Start when Handle was never called: the worker could serve no task.
	ErrNoHandlers = errors.New("worker: no handlers")
	// ErrStarted is returned by Start when the worker has been started before. A worker can't be started again.
	ErrStarted = errors.New("worker: started before")
	// ErrLeftBehind is matched when Stop returned before everything had ended.
	ErrLeftBehind = errors.New("worker: shutdown deadline exceeded with tasks or settlements in progress")
)

// unservedError is the reason why a task is archived that no live worker of the fleet can serve: its task type, its
// limit or its meter is missing. The cause is what the last worker found.
type unservedError struct{ err error }

func (e *unservedError) Error() string {
	return fmt.Sprintf("no worker of the fleet could serve the task for %v: %v", unservedAfter, e.err)
}

func (e *unservedError) Unwrap() error { return e.err }

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

// timeoutError is the failure of a handler that did not return although its context had ended. It matches
// context.DeadlineExceeded. The handler is still running.
type timeoutError struct{ after time.Duration }

func (e *timeoutError) Error() string {
	return fmt.Sprintf("handler did not return in time: left running after %v", e.after.Round(time.Millisecond))
}

func (e *timeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// stopError names the tasks and settlements that Stop left unfinished. It matches ErrLeftBehind and the reason why
// Stop could not wait longer. No task is lost: a task whose handler still runs is requeued, and an open settlement
// leaves its charge as estimated.
type stopError struct {
	// Handlers are the IDs of the tasks whose handlers still run.
	Handlers []string
	// Settlements are the IDs of the tasks that are not settled yet.
	Settlements []string
	Err         error
}

func (e *stopError) Error() string {
	var parts []string
	if n := len(e.Handlers); n > 0 {
		parts = append(parts, fmt.Sprintf("%d handlers still run (tasks %s)", n, list(e.Handlers)))
	}
	if n := len(e.Settlements); n > 0 {
		parts = append(parts, fmt.Sprintf("%d settlements are open (tasks %s)", n, list(e.Settlements)))
	}
	return fmt.Sprintf("%v: %s: %v", ErrLeftBehind, strings.Join(parts, ", "), e.Err)
}

// Is makes the error match ErrLeftBehind.
func (e *stopError) Is(target error) bool { return target == ErrLeftBehind }

// Unwrap returns why Stop could not wait longer.
func (e *stopError) Unwrap() error { return e.Err }

// list shows the first few.
func list(ids []string) string {
	const shown = 5
	slices.Sort(ids)
	if len(ids) > shown {
		return strings.Join(ids[:shown], ", ") + ", ..."
	}
	return strings.Join(ids, ", ")
}
