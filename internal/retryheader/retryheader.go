// Package retryheader reads the Retry-After headers of HTTP answers.
package retryheader

import (
	"net/http"
	"strconv"
	"time"

	"github.com/headway-go/headway/internal/bucket"
)

// After returns how long the headers of an answer ask to wait. It reads Retry-After-Ms, or Retry-After as seconds (a
// fraction is allowed) or as a date. It compares a date with the answer's own Date, if there is one. The result is
// zero without usable headers, and at most bucket.MaxWait.
func After(h http.Header) time.Duration {
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
