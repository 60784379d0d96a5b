package cli

import (
	"context"
	"errors"

	"github.com/headway-go/headway/batches"
	"github.com/headway-go/headway/deadtasks"
	"github.com/headway-go/headway/internal/config"
	"github.com/headway-go/headway/internal/connect"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/redisstore"
)

// The exit codes of all commands, so that scripts can tell what went wrong.
const (
	ExitOK          = 0   // all went well
	ExitFailed      = 1   // the work itself went wrong: a violation, a lost task, a faulty line
	ExitUsage       = 2   // the command line, the configuration or an address is wrong; nothing was done
	ExitUnavailable = 3   // a service could not be reached
	ExitInterrupted = 130 // stopped by a signal before the work was done
)

// UsageError marks an error of the command line.
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *UsageError) Unwrap() error { return e.Err }

// ToldError stands for faults that the command has shown already: its text is only their summary.
type ToldError struct {
	Summary string
	Err     error
}

func (e *ToldError) Error() string { return e.Summary }

// Unwrap returns the faults.
func (e *ToldError) Unwrap() error { return e.Err }

// exitCode is the exit code for what a command returned; nil is ExitOK.
func exitCode(err error) int {
	if err == nil {
		return ExitOK
	}
	var usage *UsageError
	var faults *config.Error
	switch {
	case errors.As(err, &usage), errors.As(err, &faults), errors.Is(err, connect.ErrInvalidURL), errors.Is(err, connect.ErrNotSet), errors.Is(err, connect.ErrKeptElsewhere),
		errors.Is(err, redisstore.ErrEvicts), errors.Is(err, reservations.ErrInvalidLimit), reservations.IsPermanent(err):
		return ExitUsage
	case errors.Is(err, connect.ErrUnreachable), errors.Is(err, reservations.ErrUnavailable), errors.Is(err, batches.ErrUnavailable), errors.Is(err, deadtasks.ErrUnavailable):
		return ExitUnavailable
	case errors.Is(err, context.Canceled):
		return ExitInterrupted
	default:
		return ExitFailed
	}
}
