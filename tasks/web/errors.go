package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// ErrHostNotAllowed is matched when a request's host is none of Config.AllowHosts.
var ErrHostNotAllowed = errors.New("web: host is not allowed")

// ErrTooLarge is matched when the body of an answer is above Config.MaxBody.
var ErrTooLarge = errors.New("web: the answer is too large")

// ErrPacked is matched when the body of an answer is packed in a way that no client asked for.
var ErrPacked = errors.New("web: the answer is packed")

// messageLength is how much of an answer stands in the text of an Error, in bytes.
const messageLength = 500

// packedLength is how much of the name of a packing an Error shows, in bytes.
const packedLength = 40

// RequestError says what is wrong with a request before it is sent.
type RequestError struct {
	// Field is the field of the request, e.g. "url" or "header.X-Name".
	Field   string
	Problem string
	// Err is the kind of fault where there is more to tell, e.g. ErrHostNotAllowed; else nil.
	Err error
}

func (e *RequestError) Error() string { return fmt.Sprintf("http request: %s %s", e.Field, e.Problem) }

// Unwrap returns the kind of fault.
func (e *RequestError) Unwrap() error { return e.Err }

// Error is a call that failed. Its text never holds a secret.
type Error struct {
	// Answer is what came, as far as it was read; its StatusCode is zero where nothing came.
	Answer Answer
	// RetryAfter is how long the answer asks to wait; zero where it does not say.
	RetryAfter time.Duration
	// Err is the cause where it is not the status, e.g. a broken connection or ErrTooLarge; else nil.
	Err error

	message string // the beginning of the body
	secret  bool   // the request was sent with one
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("http request")
	if e.Answer.StatusCode != 0 {
		fmt.Fprintf(&b, ": %d %s", e.Answer.StatusCode, http.StatusText(e.Answer.StatusCode))
	}
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	} else if e.message != "" {
		b.WriteString(": " + e.message)
	}
	if e.RetryAfter > 0 {
		fmt.Fprintf(&b, " (retry after %v)", e.RetryAfter)
	}
	return b.String()
}

// Unwrap returns the cause, e.g. context.DeadlineExceeded.
func (e *Error) Unwrap() error { return e.Err }

// Answered is the answer that the service gave, for where answers are kept: its status (zero where none came), the service's name for the call,
// and the body as it came.
func (e *Error) Answered() (status int, requestID string, body json.RawMessage) {
	if e.Err != nil {
		return 0, "", nil
	}
	return e.Answer.StatusCode, e.Answer.RequestID, e.Answer.Body
}

// Permanent says whether no retry mends the failure: an answer that is too large or packed, or any status but a timeout (408), a conflict (409), too
// early (425), too many requests (429), those of 5xx, and a secret that was refused (401), which is the worker's fault and not the task's.
func (e *Error) Permanent() bool {
	switch status := e.Answer.StatusCode; {
	case errors.Is(e.Err, ErrTooLarge), errors.Is(e.Err, ErrPacked):
		return true
	case status == 0, e.Err != nil, status >= http.StatusInternalServerError:
		return false
	case status == http.StatusUnauthorized:
		return !e.secret
	default:
		return status != http.StatusRequestTimeout && status != http.StatusConflict && status != http.StatusTooEarly && status != http.StatusTooManyRequests
	}
}
