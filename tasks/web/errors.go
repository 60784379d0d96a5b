package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// ErrHostNotAllowed means that a request's host is not in Config.AllowHosts.
var ErrHostNotAllowed = errors.New("web: host is not allowed")

// ErrTooLarge means that the body of an answer is larger than Config.MaxBody.
var ErrTooLarge = errors.New("web: the answer is too large")

// ErrPacked is matched when the body of an answer is packed in a way that no client asked for.
var ErrPacked = errors.New("web: the answer is packed")

// messageLength is how many bytes of an answer the text of an Error contains.
const messageLength = 500

// packedLength is how much of the name of a packing an Error shows, in bytes.
const packedLength = 40

// RequestError is the reason why a request was not sent.
type RequestError struct {
	// Field is the field of the request, e.g. "url" or "header.X-Name".
	Field   string
	Problem string
	// Err is the kind of fault, e.g. ErrHostNotAllowed. It may be nil.
	Err error
}

func (e *RequestError) Error() string { return fmt.Sprintf("http request: %s %s", e.Field, e.Problem) }

// Unwrap returns the kind of fault.
func (e *RequestError) Unwrap() error { return e.Err }

// Error is a call that failed. Its text never contains a secret.
type Error struct {
	// Answer is the part of the answer that was read. Its StatusCode is zero without an answer.
	Answer Answer
	// RetryAfter is how long the answer asks to wait. It is zero if the answer names no time.
	RetryAfter time.Duration
	// Err is the cause, e.g. a broken connection or ErrTooLarge. It is nil if the status is the cause.
	Err error

	message string // the first bytes of the body
	secret  bool   // the request contained a secret
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

// Answered returns the answer of the service, to be stored: its status (zero without an answer), the service's ID of
// the call, and the unchanged body.
func (e *Error) Answered() (status int, requestID string, body json.RawMessage) {
	if e.Err != nil {
		return 0, "", nil
	}
	return e.Answer.StatusCode, e.Answer.RequestID, e.Answer.Body
}

// Permanent returns whether a retry cannot fix the failure. An answer that is too large or packed is permanent. So is
// any status but these: timeout (408), conflict (409), too early (425), too many requests (429), all of 5xx. A
// refused secret (401) is the worker's fault and not the task's, so it is not permanent either.
func (e *Error) Permanent() bool {
	switch status := e.Answer.StatusCode; {
	case errors.Is(e.Err, ErrTooLarge), errors.Is(e.Err, ErrPacked):
		return true
	case status == 0, e.Err != nil, status >= http.StatusInternalServerError:
		return false
	case status == http.StatusUnauthorized:
		return !e.secret
	default:
		return status != http.StatusRequestTimeout && status != http.StatusConflict && status != http.StatusTooEarly &&
			status != http.StatusTooManyRequests
	}
}
