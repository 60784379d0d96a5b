package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/headway-go/headway/deadtasks"
	"github.com/headway-go/headway/internal/documents/batches"
	"github.com/headway-go/headway/internal/fleet/register"
	"github.com/headway-go/headway/internal/setup/config"
	"github.com/headway-go/headway/internal/setup/connect"
	"github.com/headway-go/headway/internal/text/nearest"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/redisstore"
)

// The exit codes of all commands, for scripts.
const (
	ExitOK          = 0   // success
	ExitFailed      = 1   // the work itself failed: a violation, a lost task, an invalid line
	ExitUsage       = 2   // the command line, the configuration or an address is invalid; nothing was done
	ExitUnavailable = 3   // a service could not be reached
	ExitInterrupted = 130 // stopped by a signal before the work was done
)

// UsageError marks an error of the command line.
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *UsageError) Unwrap() error { return e.Err }

// Usage returns a UsageError with the text that fmt.Errorf makes.
func Usage(format string, args ...any) error { return &UsageError{Err: fmt.Errorf(format, args...)} }

// ShownError wraps faults that the command has printed already. Its text is only their summary.
type ShownError struct {
	Summary string
	Err     error
}

func (e *ShownError) Error() string { return e.Summary }

// Unwrap returns the faults.
func (e *ShownError) Unwrap() error { return e.Err }

// exitCode returns the exit code for the error of a command. Nil is ExitOK.
func exitCode(err error) int {
	if err == nil {
		return ExitOK
	}
	_, usage := errors.AsType[*UsageError](err)
	_, faults := errors.AsType[*config.Error](err)
	switch {
	case usage, faults, errors.Is(err, connect.ErrInvalidURL),
		errors.Is(err, connect.ErrRefused), errors.Is(err, connect.ErrNotSet), errors.Is(err, register.ErrSplit),
		errors.Is(err, redisstore.ErrEvicts), errors.Is(err, reservations.ErrInvalidLimit),
		reservations.IsPermanent(err):
		return ExitUsage
	case errors.Is(err, connect.ErrUnreachable), errors.Is(err, reservations.ErrUnavailable),
		errors.Is(err, batches.ErrUnavailable), errors.Is(err, deadtasks.ErrUnavailable):
		return ExitUnavailable
	case errors.Is(err, context.Canceled):
		return ExitInterrupted
	default:
		return ExitFailed
	}
}

// flagFault returns an error with the name of the invalid flag and the kind of value it takes. It does not change
// other errors.
func flagFault(c *cobra.Command, err error) error {
	if wrong, ok := errors.AsType[*pflag.InvalidValueError](err); ok && wanted(wrong.GetFlag()) != "" {
		problem := "must be " + wanted(wrong.GetFlag())
		switch {
		case octal.MatchString(wrong.GetValue()) && strings.HasPrefix(wrong.GetFlag().Value.Type(), "int"):
			problem = "is octal for some programs: write it without the first 0"
		case errors.Is(err, strconv.ErrRange):
			problem = "is too large or too small; it " + problem
		}
		return fmt.Errorf("--%s: %.80q %s", wrong.GetFlag().Name, wrong.GetValue(), problem)
	}
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		var names []string
		c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
		return fmt.Errorf("%w%s", err, nearest.Hint("--"+unknown.GetSpecifiedName(), names))
	}
	if missing, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		text := "needs a value"
		if wants := wanted(missing.GetFlag()); wants != "" {
			text += ", " + wants
		}
		return fmt.Errorf("--%s: %s", missing.GetFlag().Name, text)
	}
	return err
}

// wanted returns the kind of value that a flag takes, with an example. It is empty if the flag takes any text.
func wanted(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "int", "int64":
		return "a whole number, e.g. " + example(f, "20")
	case "float64":
		return "a number, e.g. " + example(f, "1.5")
	case "duration":
		return "a time with its unit, e.g. 90s, 5m or 1h30m"
	case "bool":
		return "true or false"
	}
	return ""
}

// example returns a valid value of the flag: its default, or other if it has none.
func example(f *pflag.Flag, other string) string {
	if f.DefValue == "" || f.DefValue == "0" {
		return other
	}
	return f.DefValue
}
