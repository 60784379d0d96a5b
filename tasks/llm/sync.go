package llm

import (
	"net/http"
	"time"

	"github.com/headway-go/headway/internal/api/httpcall"
	"github.com/headway-go/headway/internal/api/openai"
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

// ReadLimits reads the rate limit headers of an answer, for a client of your own. Left is what the provider says is
// left of its limits, by the meters of this package; empty where it says nothing. Wait is how long the provider asks
// all callers to wait by its headers: as for Error.RetryAfter if the answer refuses the call, else zero.
//
// It knows the headers of OpenAI, which other providers use too, and the ones of Anthropic. Values that are missing,
// contradictory or out of range are left out.
//
//	left, wait := llm.ReadLimits(res)
//	job.Observe(reservations.Observation{Remaining: left, Age: time.Since(sent)})
//	if wait > 0 {
//		return reservations.RetryAfter(wait, err)
//	}
func ReadLimits(res *http.Response) (left reservations.Tokens, wait time.Duration) {
	if kind, named := httpcall.Classify(res.StatusCode, res.Header, time.Now()); kind.Refuses() {
		wait = named
	}
	return Config{}.left(res.Header), wait
}

// left is what the headers say is left, by meter. Of two kinds with one meter the lower counts. Amounts that the
// provider rounds are at least the truth, unless they may raise a balance.
func (c Config) left(h http.Header) reservations.Tokens {
	left := reservations.Tokens{}
	for _, s := range openai.ReadHeaders(h, time.Now()) {
		meter, n := c.meterOf(s), s.Remaining
		if meter == "" {
			continue
		}
		if c.Sync != SyncBoth {
			n += s.Rounding()
		}
		if least, twice := left[meter]; twice {
			n = min(n, least)
		}
		left[meter] = n
	}
	return left
}

// meterOf is the meter that a kind of limit is synced with; empty for none.
func (c Config) meterOf(s openai.Seen) string {
	if meter, ok := c.Meters[s.Kind]; ok {
		return meter
	}
	if s.Provider == openai.Anthropic && s.Kind == MeterTokens {
		return "" // whichever limit is nearest: of a workspace, of input, of output
	}
	return s.Kind
}

// observation is what an answer says of the meters that a task's own charge has, the provider's; false where that is
// nothing.
func (c Config) observation(
	charge reservations.Tokens, h http.Header, age time.Duration,
) (o reservations.Observation, ok bool) {
	if c.Sync == SyncOff || len(h) == 0 || len(charge) == 0 {
		return o, false
	}
	o = reservations.Observation{Remaining: among(charge, c.left(h)), Age: age, Up: c.Sync == SyncBoth}
	return o, len(o.Remaining) > 0
}
