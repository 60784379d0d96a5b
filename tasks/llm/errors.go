package llm

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/headway-go/headway/internal/api/httpcall"
	"github.com/headway-go/headway/tasks"
)

// Error is a call that failed. Its text never holds the API key.
type Error struct {
	// Endpoint is what was called.
	Endpoint Endpoint
	// StatusCode is that of the answer; zero where none came.
	StatusCode int
	// Code, Type, Param and Message are the provider's own, empty where it gave none. They are shortened; the message
	// is left out where the key was refused, because providers repeat a part of it.
	Code, Type, Param, Message string
	// RetryAfter is how long the provider asks to wait: by Retry-After, else by the body, else the time until the limit is
	// full again that ran out. Zero where nothing says.
	RetryAfter time.Duration
	// Unusable says what came with a good status instead of an answer, e.g. "the answer is empty"; it is empty for all
	// other errors. It is the same text for the same mistake. Such an answer may cost as much as a good one, and mostly
	// comes again.
	Unusable string
	// RequestID is the provider's name for the call.
	RequestID string
	// Body is what the provider answered, as it came, at most 64 kB of it and without the key; nothing where no answer
	// came or the key was refused.
	Body []byte
	// Err is the cause where it is not the answer, e.g. a broken connection; else nil.
	Err error

	kind httpcall.Kind
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Endpoint.call())
	if e.StatusCode != 0 {
		b.WriteString(": " + httpcall.StatusLine(e.StatusCode))
	}
	for _, part := range []string{e.Code, e.Message} {
		if part != "" {
			b.WriteString(": " + part)
		}
	}
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	if e.RetryAfter > 0 {
		fmt.Fprintf(&b, " (retry after %v)", e.RetryAfter)
	}
	if e.RequestID != "" {
		fmt.Fprintf(&b, " (request %s)", e.RequestID)
	}
	return b.String()
}

// Unwrap returns the cause, e.g. context.DeadlineExceeded.
func (e *Error) Unwrap() error { return e.Err }

// Refused says whether the provider refused the call for a reason that is no fault of the task: by a limit, because it
// is overloaded, because it does not accept the key (401), or because the account has no quota left. Quota says that it
// is the last of these. The wait is
// RetryAfter, which may be zero.
func (e *Error) Refused() (refused, quota bool) { return e.kind.Refuses(), e.kind == httpcall.Quota }

// marked marks the failure as permanent, as refused, or as neither.
func (e *Error) marked() error {
	if e.kind == httpcall.Permanent || errors.Is(e.Err, ErrTooLarge) {
		return tasks.Permanent(e)
	}
	return httpcall.Refusal(e, e.kind, e.RetryAfter)
}

// rejected says whether the provider turned the request away instead of working on it.
func rejected(err error) bool {
	e, ok := errors.AsType[*Error](err)
	if !ok || e.StatusCode == http.StatusRequestTimeout {
		return false
	}
	return e.StatusCode >= 400 && e.StatusCode < 500 || e.StatusCode > 0 && e.StatusCode < 300 && e.kind.Refuses()
}
