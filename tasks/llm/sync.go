package llm

import (
	"cmp"
	"errors"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/headway-go/headway/internal/retryheader"
	"github.com/headway-go/headway/reservations"
)

// Sync says what the provider's rate limit headers may do to the bucket.
type Sync string

const (
	// SyncDown lowers balances to what the provider says is left, and never raises them: it follows other programs that
	// spend the same limit, and counts that differ, and leaves an exact bucket as it is. The zero value means SyncDown.
	SyncDown Sync = "down"
	// SyncBoth raises them too. It also refunds calls under way that the provider has not counted yet, so it can break
	// the limit. It is for a single caller that makes one call at a time.
	SyncBoth Sync = "both"
	// SyncOff ignores the headers, for a gateway that passes on headers of several limits.
	SyncOff Sync = "off"
)

// meterOf is the meter that a kind of limit is synced with; empty for none.
func (c Config) meterOf(s Seen) string {
	if meter, ok := c.Meters[s.Kind]; ok {
		return meter
	}
	if s.Provider == ProviderAnthropic && s.Kind == MeterTokens {
		return "" // whichever limit is nearest: of a workspace, of input, of output
	}
	return s.Kind
}

// observation is what was seen of the meters that a task's own charge has, the provider's; false where that is nothing.
func (c Config) observation(
	charge reservations.Tokens, seen []Seen, age time.Duration,
) (reservations.Observation, bool) {
	o := reservations.Observation{Remaining: reservations.Tokens{}, Age: age, Up: c.Sync == SyncBoth}
	if c.Sync == SyncOff {
		return o, false
	}
	for _, s := range seen {
		meter := c.meterOf(s)
		if _, charged := charge[meter]; !charged {
			continue
		}
		n := s.Remaining
		if !o.Up {
			n += s.rounding()
		}
		if least, twice := o.Remaining[meter]; twice {
			n = min(n, least)
		}
		o.Remaining[meter] = n
	}
	return o, len(o.Remaining) > 0
}

// seenIn is what a call has seen, however it ended.
func seenIn(answer Answer, err error) []Seen {
	if failed, ok := errors.AsType[*Error](err); ok {
		return failed.Seen
	}
	return answer.Seen
}

// kinds are what Seen.Kind can be, sorted.
func kinds() []string {
	all := map[string]bool{}
	for _, g := range groups() {
		all[g.kind], all[g.kind+perDay] = true, true
	}
	return slices.Sorted(maps.Keys(all))
}

// RetryAfter is how long the headers of an answer ask to wait, see retryheader.After.
func RetryAfter(h http.Header) time.Duration { return retryheader.After(h) }

// asked is how long an answer with this status asks to wait: what RetryAfter says, and for a 429 that names neither of
// its headers the time until the limit is full again that ran out.
func asked(status int, h http.Header) time.Duration {
	if status != http.StatusTooManyRequests || cmp.Or(h.Get("Retry-After-Ms"), h.Get("Retry-After")) != "" {
		return RetryAfter(h)
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
