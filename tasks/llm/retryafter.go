package llm

import (
	"cmp"
	"net/http"
	"strconv"
	"time"

	"github.com/headway-go/headway/reservations"
)

// RetryAfter is how long the headers of an answer ask to wait: Retry-After-Ms, or Retry-After as seconds, also with a
// fraction, or as a date, which is compared with the answer's own Date where it has one. Zero where the headers ask for nothing that makes
// sense; at most reservations.MaxWait.
func RetryAfter(h http.Header) time.Duration {
	if d, ok := units(h.Get("Retry-After-Ms"), time.Millisecond); ok {
		return d
	}
	text := h.Get("Retry-After")
	if d, ok := units(text, time.Second); ok {
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

// units reads a number of units that is not negative.
func units(text string, unit time.Duration) (time.Duration, bool) {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n >= 0) {
		return 0, false
	}
	return time.Duration(min(n*float64(unit), float64(reservations.MaxWait))), true
}

// asked is how long an answer with this status asks to wait: what RetryAfter says, and for a 429 that names neither of its headers the
// time until the limit is full again that ran out.
func asked(status int, h http.Header) time.Duration {
	if status != http.StatusTooManyRequests || cmp.Or(h.Get("Retry-After-Ms"), h.Get("Retry-After")) != "" {
		return RetryAfter(h)
	}
	return reset(h, time.Now())
}

// reset is the longest of the times until a limit is full again of which nothing is left, or the answer does not say. Where something of
// each is left, the tokens were too few. Zero where no such header makes sense.
func reset(h http.Header, now time.Time) time.Duration {
	var exhausted, tokens time.Duration
	now = answered(h, now)
	for _, g := range groups() {
		d, _, ok := until(h, g.reset, now)
		if !ok {
			continue
		}
		if left, known := amount(h, g.remaining); !known || left == 0 {
			exhausted = max(exhausted, d)
		}
		if g.kind != MeterRequests {
			tokens = max(tokens, d)
		}
	}
	return cmp.Or(exhausted, tokens)
}
