package web

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/headway-go/headway/internal/api/httpcall"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/tasks"
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

// unsendable is the reason why a request is not sent. Field is that of the request, e.g. "url" or "header.X-Name".
func unsendable(field, format string, args ...any) error {
	return fmt.Errorf("http request: %w", &reservations.FieldError{Field: field, Problem: fmt.Sprintf(format, args...)})
}

// Error is a call that failed. Its text never contains a secret.
type Error struct {
	// Answer is the part of the answer that was read. Its StatusCode is zero without an answer.
	Answer Answer
	// RetryAfter is how long the answer asks to wait. It is zero if the answer names no time.
	RetryAfter time.Duration
	// Err is the cause, e.g. a broken connection or ErrTooLarge. It is nil if the status is the cause.
	Err error

	kind    httpcall.Kind
	message string // the first bytes of the body
	secret  bool   // the request contained a secret
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("http request")
	if e.Answer.StatusCode != 0 {
		b.WriteString(": " + httpcall.StatusLine(e.Answer.StatusCode))
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

// Refused says whether the service refused the call for a reason that is no fault of the task: by a limit, because it
// is overloaded, or because its account has to be paid. Quota says that it is the last of these. The wait is
// RetryAfter, which may be zero.
func (e *Error) Refused() (refused, quota bool) { return e.kind.Refuses(), e.kind == httpcall.Quota }

// marked marks the failure as permanent, as refused, or as neither.
func (e *Error) marked() error {
	if e.permanent() {
		return tasks.Permanent(e)
	}
	return httpcall.Refusal(e, e.kind, e.RetryAfter)
}

// permanent returns whether a retry cannot fix the failure. An answer that is too large or packed is permanent. So is
// any status that a later call gets again, and a good one that the task does not accept. A refused secret (401) is the
// worker's fault and not the task's, so it is not permanent.
func (e *Error) permanent() bool {
	switch {
	case errors.Is(e.Err, ErrTooLarge), errors.Is(e.Err, ErrPacked):
		return true
	case e.Answer.StatusCode == 0, e.Err != nil:
		return false
	case e.Answer.StatusCode == http.StatusUnauthorized:
		return !e.secret
	default:
		return e.kind == httpcall.Permanent || e.kind == httpcall.Good
	}
}
