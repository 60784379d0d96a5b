package llm

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"
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
// time until the meter is full again that ran out.
func asked(status int, h http.Header) time.Duration {
	if status != http.StatusTooManyRequests || cmp.Or(h.Get("Retry-After-Ms"), h.Get("Retry-After")) != "" {
		return RetryAfter(h)
	}
	return reset(h)
}

// reset reads X-Ratelimit-Reset-Requests and X-Ratelimit-Reset-Tokens, as OpenAI and Groq send them. The longest counts of
// those where nothing is left, or the answer does not say. Where something of each is left, the tokens were too few.
func reset(h http.Header) time.Duration {
	var longest time.Duration
	exhausted := false
	for _, meter := range []string{"Requests", "Tokens"} {
		left := strings.TrimSpace(h.Get("X-Ratelimit-Remaining-" + meter))
		if left == "" || left == "0" {
			exhausted = true
			longest = max(longest, duration(h.Get("X-Ratelimit-Reset-"+meter)))
		}
	}
	if exhausted {
		return longest
	}
	return duration(h.Get("X-Ratelimit-Reset-Tokens"))
}

// duration reads "6m0s" and the like, or a number of seconds. Zero where it is neither, or negative.
func duration(text string) time.Duration {
	if d, ok := units(text, time.Second); ok {
		return d
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0
	}
	return min(max(0, d), reservations.MaxWait)
}
