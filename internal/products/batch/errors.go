package batch

import (
	"errors"
	"fmt"
)

// The faults of a line. A [*LineError] wraps one of them.
var (
	// ErrTooLong means that a line is longer than [Config.MaxLine], or a name longer than [MaxName].
	ErrTooLong = errors.New("too long")

	// ErrTruncated means that the last line ends in the middle of its JSON: the file was cut off.
	ErrTruncated = errors.New("the file ends in the middle of this line")

	// ErrJSON means that a line is not one JSON object, or that a field has the wrong type.
	ErrJSON = errors.New("not valid JSON")
	ErrUTF8 = errors.New("not valid UTF-8")

	// ErrMissingField means that a field is absent, null or empty.
	ErrMissingField = errors.New("missing")

	// ErrBody means that the url does not accept the body.
	ErrBody       = errors.New("unusable body")
	ErrMethod     = errors.New("unknown method")
	ErrUnknownURL = errors.New("unknown url")

	// ErrDuplicateID means that an earlier good line has the same custom_id.
	ErrDuplicateID = errors.New("duplicate custom_id")
)

// ErrEmpty means that a file has no line.
var ErrEmpty = errors.New("batch: the file has no lines")

// LineError is the fault of an invalid line.
type LineError struct {
	Line  int    // its number in the file, from 1; blank lines count
	Field string // the invalid field, e.g. "body.model"; empty if the whole line is invalid
	Err   error  // wraps one of the sentinels of this package
}

// Error returns line, field and fault.
func (e *LineError) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("line %d: %v", e.Line, e.Err)
	}
	return fmt.Sprintf("line %d: %s: %v", e.Line, e.Field, e.Err)
}

// Unwrap returns Err.
func (e *LineError) Unwrap() error { return e.Err }
