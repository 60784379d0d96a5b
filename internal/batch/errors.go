package batch

import (
	"errors"
	"fmt"
)

// What can be wrong with a line. A [*LineError] wraps one of them.
var (
	// ErrTooLong is a line longer than [Config.MaxLine], or a name longer than [MaxName].
	ErrTooLong = errors.New("too long")

	// ErrUTF8 is a line that is not UTF-8.
	ErrUTF8 = errors.New("not valid UTF-8")

	// ErrTruncated is a last line that ends in the middle of its JSON: the file was cut off.
	ErrTruncated = errors.New("the file ends in the middle of this line")

	// ErrJSON is a line that is not one JSON object, or a field that has the wrong type.
	ErrJSON = errors.New("not valid JSON")

	// ErrMissingField is a field that is absent, null or empty.
	ErrMissingField = errors.New("missing")

	// ErrMethod is a method other than POST.
	ErrMethod = errors.New("unknown method")

	// ErrUnknownURL is a url that is not supported.
	ErrUnknownURL = errors.New("unknown url")

	// ErrBody is a body that its url can't accept.
	ErrBody = errors.New("unusable body")

	// ErrDuplicateID is a custom_id that an earlier good line has.
	ErrDuplicateID = errors.New("duplicate custom_id")
)

// ErrEmpty is a file without any line.
var ErrEmpty = errors.New("batch: the file has no lines")

// LineError is a line that can't be used.
type LineError struct {
	// Line is the number of the line in the file, from 1; blank lines count.
	Line int

	// Field is what is at fault, such as "custom_id" or "body.model". Empty where it is the line as a whole.
	Field string

	// Err wraps one of the sentinels of this package.
	Err error
}

// Error says line, field and fault.
func (e *LineError) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("line %d: %v", e.Line, e.Err)
	}
	return fmt.Sprintf("line %d: %s: %v", e.Line, e.Field, e.Err)
}

// Unwrap returns Err.
func (e *LineError) Unwrap() error { return e.Err }
