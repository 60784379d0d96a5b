package httpcall

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/reservations"
)

// Kind says what an answer means for the task and for other calls.
type Kind string

// The kinds of answers.
const (
	// Good is an answer that can be used.
	Good Kind = "good"
	// RateLimit is a call that a limit of the service refused. All callers have to wait.
	RateLimit Kind = "rate_limit"
	// Overload is a call that the service has no room for. All callers have to wait.
	Overload Kind = "overload"
	// Quota is a call that the service refuses until its account is paid, or gets a larger quota. It is no fault of the
	// task.
	Quota Kind = "quota"
	// Key is a call whose key the service does not accept. It is no fault of the task.
	Key Kind = "key"
	// Failed is a call that may succeed later.
	Failed Kind = "failed"
	// Unusable is an answer with a good status that is no answer to the call, such as a page. It may have cost as much
	// as a good one, and mostly comes again.
	Unusable Kind = "unusable"
	// Permanent is a call that no retry can mend.
	Permanent Kind = "permanent"
)

// Refuses says whether the kind asks all callers to wait.
func (k Kind) Refuses() bool { return k == RateLimit || k == Overload || k == Quota || k == Key }

// reason is why a kind refuses.
func (k Kind) reason() reservations.Reason {
	switch k { //nolint:exhaustive // the others are limits, or refuse nothing
	case Quota:
		return reservations.ReasonQuota
	case Key:
		return reservations.ReasonKey
	}
	return reservations.ReasonLimit
}

// Classify says what an answer means by its status and its headers, and how long it asks to wait: zero if it names no
// time. Any status of 2xx is good.
func Classify(status int, h http.Header, now time.Time) (kind Kind, wait time.Duration) {
	wait, named := Wait(h, now)
	if !named {
		wait = ResetAfter(status, h, now)
	}
	return KindOf(status, wait > 0), wait
}

// ResetAfter is how long the resets of limits in an answer with this status ask to wait. A 429 waits for the limit that
// ran out, a 403 only if the headers say that one did. Zero otherwise.
func ResetAfter(status int, h http.Header, now time.Time) time.Duration {
	switch status {
	case http.StatusTooManyRequests:
		return Reset(h, now, false)
	case http.StatusForbidden:
		return Reset(h, now, true)
	}
	return 0
}

// The statuses that are no standard, but in use.
const (
	statusCalm       = 420 // too many requests, as of Twitter once
	statusShopify    = 430 // too many requests
	statusRetryWith  = 449 // Microsoft: another call was in the way
	statusCapacity   = 498 // Groq: the flex tier has no capacity
	statusClosed     = 499 // Google, nginx: the call was cancelled on its way
	statusBandwidth  = 509 // of shared hosts
	statusOverloaded = 529 // Anthropic, and gateways
)

// KindOf says what an answer with this status means. Timed says that it names a time to wait.
//
// Some statuses mean an overload only if they name a time: 404, 423 and 424 while a model loads; 408, 409, 425, 449 and
// 499; the gateways' 502, 504, 509 and 520 to 530. A 403 is then a limit, as of GitHub. A 401 is a failure: some
// services say so of one resource. If the whole service has one key, it is a Key.
func KindOf(status int, timed bool) Kind {
	switch status {
	case http.StatusTooManyRequests, statusCalm, statusShopify:
		return RateLimit
	case http.StatusServiceUnavailable, statusCapacity, statusOverloaded:
		return Overload
	case http.StatusPaymentRequired:
		return Quota
	case http.StatusUnauthorized:
		return Failed
	case http.StatusForbidden:
		return either(timed, RateLimit, Permanent)
	case http.StatusNotFound, http.StatusLocked, http.StatusFailedDependency:
		return either(timed, Overload, Permanent)
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusBadGateway,
		http.StatusGatewayTimeout, statusRetryWith, statusClosed, statusBandwidth:
		return either(timed, Overload, Failed)
	}
	switch {
	case status >= 520 && status <= 530:
		return either(timed, Overload, Failed)
	case status >= http.StatusInternalServerError:
		return Failed
	case status >= http.StatusOK && status < http.StatusMultipleChoices:
		return Good
	}
	return Permanent
}

func either(is bool, yes, no Kind) Kind {
	if is {
		return yes
	}
	return no
}

// Refusal returns the error of a call: a *reservations.RetryAfterError around err if the answer asks all callers to
// wait.
func Refusal(err error, kind Kind, wait time.Duration) error {
	if kind.Refuses() {
		return &reservations.RetryAfterError{After: min(wait, bucket.MaxBlockMost), Reason: kind.reason(), Err: err}
	}
	return err
}

// StatusLine is a status with its name, e.g. "529 Overloaded".
func StatusLine(status int) string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", status, nameOf(status)))
}

// Known says whether the status has a name.
func Known(status int) bool { return nameOf(status) != "" }

func nameOf(status int) string {
	switch status {
	case statusCapacity:
		return "Over Capacity"
	case statusOverloaded:
		return "Overloaded"
	}
	return http.StatusText(status)
}
