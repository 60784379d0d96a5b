package openai

import (
	"cmp"
	"net/http"
	"time"

	"github.com/headway-go/headway/internal/retryheader"
)

// RetryAfter is how long an answer with this status asks to wait: what retryheader.After reads, and for a 429 that
// names neither of its headers the time until the limit is full again that ran out. Zero where no such header makes
// sense.
func RetryAfter(status int, h http.Header) time.Duration {
	if status != http.StatusTooManyRequests || cmp.Or(h.Get("Retry-After-Ms"), h.Get("Retry-After")) != "" {
		return retryheader.After(h)
	}
	return reset(h, time.Now())
}

// reset is the longest of the times until a limit is full again of which nothing is left, or the answer does not say.
// Where something of each is left, the tokens were too few. Zero where no such header makes sense.
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
