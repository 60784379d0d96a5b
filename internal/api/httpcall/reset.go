package httpcall

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Wait returns how long the headers of an answer ask to wait: the first of Retry-After-Ms, Retry-After and their kin
// that can be read. Named says that there is one of them, whether it can be read or not. The result is zero if none
// can be read, and at most bucket.MaxWait.
func Wait(h http.Header, now time.Time) (d time.Duration, named bool) {
	now = Clock(h, now)
	for _, field := range []struct {
		name string
		unit time.Duration
	}{
		{"Retry-After-Ms", time.Millisecond},
		{"X-Ms-Retry-After-Ms", time.Millisecond}, // Azure
		{"Retry-After", time.Second},
		{"X-Retry-After", time.Second},
		{"X-Ratelimit-Retry-After", time.Second},
		{"X-Ratelimit-Timeremaining", time.Second}, // GitHub Models
	} {
		text := h.Get(field.name)
		named = named || text != ""
		if d, _, ok := When(text, field.unit, now); ok {
			return d, true
		}
	}
	return 0, named
}

// allowance is one limit that headers speak of.
type allowance struct {
	reset   time.Duration
	left    float64
	counted bool // left is known
	tokens  bool // the limit is of tokens, or of bytes
}

// allowances are the limits whose reset the headers name, however they are called: each header whose name has ratelimit
// and reset, and the one with remaining in place of reset. The IETF's RateLimit has both in one value.
func allowances(h http.Header, now time.Time) (all []allowance) {
	now = Clock(h, now)
	values := map[string]string{}
	for name, list := range h {
		if strings.EqualFold(name, "RateLimit") { // a list may have several lines
			list = []string{strings.Join(list, ",")}
		}
		if len(list) == 0 || slices.ContainsFunc(list, func(v string) bool { return v != list[0] }) {
			continue // they can't all be true
		}
		values[strings.ReplaceAll(strings.ToLower(name), "rate-limit", "ratelimit")] = strings.TrimSpace(list[0])
	}
	for name, text := range values {
		if !strings.Contains(name, "ratelimit") || !strings.Contains(name, "reset") {
			continue
		}
		reset, _, ok := When(text, time.Second, now)
		if !ok {
			continue
		}
		a := allowance{reset: reset, tokens: strings.Contains(name, "token") || strings.Contains(name, "size")}
		a.left, a.counted = left(values[strings.ReplaceAll(name, "reset", "remaining")])
		all = append(all, a)
	}
	limits := values["ratelimit"]
	if strings.Contains(limits, "reset=") { // "limit=9, remaining=0, reset=30"
		limits = strings.ReplaceAll(limits, ",", ";")
	}
	for item := range strings.SplitSeq(limits, ",") { // `"default";r=0;t=30`
		if a, ok := structured(item, now); ok {
			all = append(all, a)
		}
	}
	return all
}

// structured reads one item of the IETF's RateLimit, in its newer form, or all of an older one.
func structured(item string, now time.Time) (a allowance, ok bool) {
	for part := range strings.SplitSeq(item, ";") {
		switch name, value, _ := strings.Cut(strings.TrimSpace(part), "="); name {
		case "r", "remaining":
			a.left, a.counted = left(value)
		case "t", "reset":
			a.reset, _, ok = When(value, time.Second, now)
		}
	}
	return a, ok
}

// left reads an amount.
func left(text string) (n float64, ok bool) {
	n, err := strconv.ParseFloat(text, 64)
	return n, err == nil && n >= 0
}

// Reset is the longest of the times until a limit is full again of which nothing is left. With sure it has to say so;
// otherwise one that does not say counts too, and if something is left of each, the tokens were too few. Zero if no
// such header makes sense.
func Reset(h http.Header, now time.Time, sure bool) time.Duration {
	var exhausted, tokens time.Duration
	for _, a := range allowances(h, now) {
		if a.counted && a.left == 0 || !a.counted && !sure {
			exhausted = max(exhausted, a.reset)
		}
		if a.tokens && !sure {
			tokens = max(tokens, a.reset)
		}
	}
	return cmp.Or(exhausted, tokens)
}
