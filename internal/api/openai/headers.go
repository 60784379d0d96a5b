package openai

import (
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/headway-go/headway/internal/api/httpcall"
)

// Provider is a family of providers whose headers mean something else than OpenAI's. It is empty for all others.
type Provider string

// The families that ReadHeaders distinguishes.
const (
	// Groq sends X-Ratelimit-*; its limit of requests is per day.
	Groq Provider = "groq"
	// Anthropic sends Anthropic-Ratelimit-*, with tokens rounded to thousands.
	Anthropic Provider = "anthropic"
)

// Seen is what the headers of one answer say of one of the provider's limits.
type Seen struct {
	// Provider is the family that the headers look like.
	Provider Provider
	// Kind is what is counted: MeterRequests, MeterTokens, MeterInput, MeterOutput, or one of a day.
	Kind string
	// Limit is the most there can be; zero where the headers do not say.
	Limit float64
	// Remaining is what was left at some moment between the call's departure and its answer, less what the call was
	// counted with. Never negative.
	Remaining float64
	// Reset is the time until all of it is there again; zero where the headers do not say, or it is.
	Reset time.Duration
}

// ReadHeaders reads the rate limit headers of an answer: the names of OpenAI, which other providers use too, and the
// names of Anthropic. Times are compared with now if the answer has no Date.
//
// There is no error: a value is left out alone if it is missing, contradictory, or not a number from 0 to 1e15. So is a
// value whose period is neither about a minute nor a day.
//
// OpenAI and Groq use one name for limits of a minute and of a day. The limit is a day's for the requests of Groq, and
// for a name that ends in -Day. So is a limit with a reset more than an hour away. So is a limit whose used requests
// come back at the rate of a day's limit.
func ReadHeaders(h http.Header, now time.Time) []Seen {
	var all []Seen
	now = httpcall.Clock(h, now)
	provider := providerOf(h)
	for _, g := range groups() {
		remaining, ok := amount(h, g.remaining)
		if !ok {
			continue
		}
		s := Seen{Provider: provider, Kind: g.kind, Remaining: remaining}
		s.Limit, _ = amount(h, g.limit)
		reset, grain, said := until(h, g.reset, now)
		s.Reset = reset
		if s.Limit > 0 && s.Remaining > s.Limit {
			continue // they can't both be true
		}
		if g.period == "" && said {
			g.period = s.period(max(0, reset-grain))
		}
		if provider == Groq && g.kind == MeterRequests && g.period != minute {
			g.period = day
		}
		switch g.period {
		case day:
			s.Kind += perDay
		case unknown:
			continue
		}
		all = append(all, s)
	}
	return all
}

// What a limit counts for. The empty period is not known yet, and is taken for a minute.
const (
	minute  = "minute"
	day     = "day"
	unknown = "unknown"
)

// perDay is how the name of a kind ends that is counted for a day.
const perDay = "_per_day"

const (
	// minuteMost is the longest time after which a minute's limit may be full again: windows are not always cut
	// exactly.
	minuteMost = 2 * time.Minute
	// dayLeast is the shortest that no other limit than a day's is away from being full.
	dayLeast = time.Hour
	// dayHalf is how long a day's limit takes to fill, at least, allowing for what is rounded.
	dayHalf = 12 * time.Hour
	// dayMost is the longest that a day's limit is away from being full.
	dayMost = 25 * time.Hour
)

// period distinguishes a day and a minute. Reset is at least so long. The rate of refill counts for requests only:
// the resets of tokens, even in the providers' own examples, do not always follow a bucket.
func (s Seen) period(reset time.Duration) string {
	used := s.Limit - s.Remaining
	switch {
	case reset > dayMost:
		return unknown
	case reset > dayLeast, s.Kind == MeterRequests && used > 0 && s.Limit/used*reset.Seconds() > dayHalf.Seconds():
		return day
	case reset > minuteMost:
		return unknown
	}
	return ""
}

// Rounding is by how much Remaining may be below the truth.
func (s Seen) Rounding() float64 {
	if s.Provider == Anthropic && !strings.HasPrefix(s.Kind, MeterRequests) &&
		math.Mod(s.Remaining, 1000) == 0 {
		return 500
	}
	return 0
}

// group are the names of the headers that speak of one limit.
type group struct {
	kind, period     string
	limit, remaining string
	reset            []string // the first that is there counts
}

// Kinds are what Seen.Kind can be, sorted.
func Kinds() []string {
	all := map[string]bool{}
	for _, g := range groups() {
		all[g.kind], all[g.kind+perDay] = true, true
	}
	return slices.Sorted(maps.Keys(all))
}

var groups = sync.OnceValue(func() []group { //nolint:gochecknoglobals // a constant
	var all []group
	for _, k := range []struct{ kind, name string }{
		{MeterRequests, "Requests"},
		{MeterTokens, "Tokens"},
		{MeterInput, "Input-Tokens"},
		{MeterOutput, "Output-Tokens"},
	} {
		for _, p := range []struct{ period, suffix string }{{"", ""}, {minute, "-Minute"}, {day, "-Day"}} {
			n := k.name + p.suffix
			all = append(all, group{
				kind: k.kind, period: p.period, limit: "X-Ratelimit-Limit-" + n, remaining: "X-Ratelimit-Remaining-" + n,
				reset: []string{"X-Ratelimit-Reset-" + n, "X-Rate-Limit-Reset-" + n},
			})
		}
		a := "Anthropic-Ratelimit-" + k.name
		all = append(all, group{
			kind: k.kind, period: "", limit: a + "-Limit", remaining: a + "-Remaining",
			reset: []string{a + "-Reset"},
		})
	}
	return all
})

// providerOf finds the family by the headers that only it sends.
func providerOf(h http.Header) (family Provider) {
	for name := range h {
		switch name = http.CanonicalHeaderKey(name); {
		case strings.HasPrefix(name, "Anthropic-"):
			return Anthropic
		case strings.HasPrefix(name, "X-Groq-"):
			family = Groq
		}
	}
	return family
}

// only is the value of a header that says one thing.
func only(h http.Header, name string) (string, bool) {
	values := h.Values(name)
	if len(values) == 0 || slices.ContainsFunc(values, func(v string) bool { return v != values[0] }) {
		return "", false
	}
	return strings.TrimSpace(values[0]), true
}

// amount reads a number of tokens.
func amount(h http.Header, name string) (float64, bool) {
	text, ok := only(h, name)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseFloat(text, 64)
	const most = 1e15 // as for a charge
	if err != nil || !(n >= 0 && n <= most) || math.Signbit(n) {
		return 0, false
	}
	return n, true
}

// until is the time until a limit is full again, at most bucket.MaxWait, and how exactly it is said.
func until(h http.Header, names []string, now time.Time) (reset, grain time.Duration, ok bool) {
	for _, name := range names {
		if text, there := only(h, name); there {
			return httpcall.When(text, time.Second, now)
		}
	}
	return 0, 0, false
}
