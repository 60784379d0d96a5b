// Package httpcall says what the end of one HTTP call means: whether the request was sent, whether a later call may
// succeed, and how long the service asks all callers to wait.
package httpcall

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/reservations"
)

// Watch returns the context for one request, and a func for its error: the error matches reservations.ErrNotCalled if
// the request never had a connection. A transport that does not trace counts as connected, unless the error says
// otherwise.
func Watch(ctx context.Context) (watched context.Context, mark func(error) error) {
	var asked, connected atomic.Bool
	over := ctx.Err() != nil
	watched = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { asked.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	})
	return watched, func(err error) error {
		op, ok := errors.AsType[*net.OpError](err)
		if over || asked.Load() && !connected.Load() || ok && op.Op == "dial" {
			return reservations.NotCalled(err)
		}
		return err
	}
}

// MayRetry returns whether a later call may succeed where one was answered with this status: timeout (408), conflict
// (409), too early (425), too many requests (429), all of 5xx.
func MayRetry(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	default:
		return status >= http.StatusInternalServerError
	}
}

// Refuses returns whether an answer with this status asks all callers to wait, if it names a time.
func Refuses(status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable
}

// Refusal returns the error of a call: a *reservations.RetryAfterError around err if the answer refused the call and
// named a time.
func Refusal(err error, status int, wait time.Duration) error {
	if wait > 0 && Refuses(status) {
		return reservations.RetryAfter(wait, err)
	}
	return err
}

// Wait returns how long the headers of an answer ask to wait. It reads Retry-After-Ms, or Retry-After as seconds (a
// fraction is allowed) or as a date. It compares a date with the answer's own Date, if there is one. The result is
// zero without usable headers, and at most bucket.MaxWait.
func Wait(h http.Header) time.Duration {
	if d, ok := Units(h.Get("Retry-After-Ms"), time.Millisecond); ok {
		return d
	}
	text := h.Get("Retry-After")
	if d, ok := Units(text, time.Second); ok {
		return d
	}
	until, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	now, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		now = time.Now()
	}
	return min(max(0, until.Sub(now)), bucket.MaxWait)
}

// Units parses a number of units, which may have a fraction. Ok is false if the text is not a number, or negative.
// The result is at most bucket.MaxWait.
func Units(text string, unit time.Duration) (d time.Duration, ok bool) {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n >= 0) {
		return 0, false
	}
	return time.Duration(min(n*float64(unit), float64(bucket.MaxWait))), true
}
