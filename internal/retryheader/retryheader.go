// Package retryheader reads how long an HTTP answer asks to be left alone.
package retryheader

import (
	"net/http"
	"strconv"
	"time"

	"github.com/headway-go/headway/reservations"
)

// After is how long the headers of an answer ask to wait: Retry-After-Ms, or Retry-After as seconds, also with a
// fraction, or as a date, which is compared with the answer's own Date where it has one. Zero where the headers ask for nothing that makes
// sense; at most reservations.MaxWait.
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
	return min(max(0, until.Sub(now)), reservations.MaxWait)
}

// Units reads a number of units, which may have a fraction. It is not ok where the text is no number or a negative one. At most
// reservations.MaxWait.
func Units(text string, unit time.Duration) (d time.Duration, ok bool) {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n >= 0) {
		return 0, false
	}
	return time.Duration(min(n*float64(unit), float64(reservations.MaxWait))), true
}
