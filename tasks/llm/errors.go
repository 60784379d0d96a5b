package llm

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/headway-go/headway/internal/httpcall"
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
	// RetryAfter is how long the provider asks to wait. For a 429 without Retry-After it is the time until the meter is
	// full again that ran out. Zero where the headers do not say.
	RetryAfter time.Duration
	// RequestID is the provider's name for the call.
	RequestID string
	// Body is what the provider answered, as it came, at most 64 kB of it and without the key; nothing where no answer
	// came or the key was refused.
	Body []byte
	// Err is the cause where it is not the answer, e.g. a broken connection; else nil.
	Err error
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Endpoint.call())
	if e.StatusCode != 0 {
		fmt.Fprintf(&b, ": %d %s", e.StatusCode, http.StatusText(e.StatusCode))
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

// marked marks the failure as permanent, as refused, or as neither.
func (e *Error) marked() error {
	if e.permanent() {
		return tasks.Permanent(e)
	}
	return httpcall.Refusal(e, e.StatusCode, e.RetryAfter)
}

// tooLarge begins the message in which OpenAI's API refuses a request that is above the whole limit. A request that
// only comes too early gets the same status and code.
const tooLarge = "Request too large"

// permanent reports whether no retry can succeed. That is a 4xx that a later call gets again, other than a refused key
// (401), which is the worker's fault and not the task's. A 429 is permanent if the request is larger than the
// provider's whole limit, and so is an answer that is too large.
func (e *Error) permanent() bool {
	switch e.StatusCode {
	case http.StatusTooManyRequests:
		return strings.HasPrefix(e.Message, tooLarge)
	case http.StatusUnauthorized:
		return false
	default:
		return e.StatusCode >= 400 && !httpcall.MayRetry(e.StatusCode) || errors.Is(e.Err, ErrTooLarge)
	}
}
