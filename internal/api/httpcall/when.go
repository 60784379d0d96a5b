package httpcall

import (
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/headway-go/headway/internal/bucket"
)

// The seconds that are a Unix time and no duration: the years 2008 to 2103. As a duration that is 38 years and more.
const (
	epochFirst = 1.2e9
	epochLast  = 4.2e9
)

// When reads how long a text asks to wait. It is the one reader for all headers and fields of bodies. A text is one of:
//
//   - A number of units ("30", "1.5").
//   - A Unix time in seconds, milliseconds, microseconds or nanoseconds ("1795255200", "1795255200000").
//   - A duration with units ("6m0s", "1h2m3.5s", "120ms", "1d2h", "59 seconds"), of ISO 8601 ("PT1M2.5S"), or with
//     colons ("00:00:30", "1.02:00:00").
//   - A date of HTTP, or of ISO 8601. Without a zone it is UTC.
//
// A time is compared with now. One in the past is zero. Ok is false for any other text and for a negative duration. The
// result is at most bucket.MaxWait. Grain is about the unit of the text's last digit.
func When(text string, unit time.Duration, now time.Time) (d, grain time.Duration, ok bool) {
	if text = strings.TrimSpace(text); text == "" {
		return 0, 0, false
	}
	if n, err := strconv.ParseFloat(text, 64); err == nil || math.IsInf(n, 1) {
		return number(n, text, unit, now)
	}
	if d, rest, found := units(spelled(text)); found && rest == "" {
		return d, grainOf(text), true
	}
	for _, layout := range layouts() {
		if t, err := time.Parse(layout, text); err == nil {
			return bounded(t.Sub(now)), 2 * time.Second, true // its second, and that of now
		}
	}
	return 0, 0, false
}

// layouts are the layouts of times.
func layouts() []string {
	return []string{
		http.TimeFormat, time.RFC850, time.ANSIC, time.RFC1123Z, time.RFC3339, "2006-01-02T15:04:05Z0700",
		"2006-01-02T15:04:05", time.DateTime, "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05 Z0700",
		"2006-01-02 15:04:05 UTC", "2006-01-02 15:04:05 GMT", "2006-01-02 15:04:05Z07", "Mon, 02 Jan 2006 15:04:05 UTC",
	}
}

var (
	iso    = regexp.MustCompile(`(?i)^P(\d+D)?(?:T([\d.]+H)?([\d.]+M)?([\d.]+S)?)?$`)
	colons = regexp.MustCompile(`^(?:(\d+)\.)?(\d{1,3}):([0-5]\d):([0-5]\d(?:\.\d+)?)$`)
)

// spelled writes a duration of ISO 8601, or with colons, with units. Any other text stays as it is.
func spelled(text string) string {
	if parts := iso.FindStringSubmatch(text); parts != nil {
		return strings.Join(parts[1:], "")
	}
	if parts := colons.FindStringSubmatch(text); parts != nil {
		return "0" + parts[1] + "d" + parts[2] + "h" + parts[3] + "m" + parts[4] + "s"
	}
	return text
}

// number is a Unix time, or a number of units.
func number(n float64, text string, unit time.Duration, now time.Time) (d, grain time.Duration, ok bool) {
	if !(n >= 0) {
		return 0, 0, false
	}
	for perSecond := 1.0; perSecond <= 1e9; perSecond *= 1e3 {
		if s := n / perSecond; s >= epochFirst && s < epochLast {
			at := time.Unix(int64(s), int64((s-math.Floor(s))*float64(time.Second)))
			return bounded(at.Sub(now)), 2 * time.Second, true
		}
	}
	grain = unit
	if strings.Contains(text, ".") {
		grain = unit / 100
	}
	return time.Duration(min(n*float64(unit), float64(bucket.MaxWait))), grain, true
}

// bounded is a duration from zero to bucket.MaxWait.
func bounded(d time.Duration) time.Duration { return min(max(0, d), bucket.MaxWait) }

// quantity is a number with a unit, at the beginning of a text.
var quantity = regexp.MustCompile(`(?i)^(\d+(?:\.\d*)?|\.\d+)\s*(nanoseconds?|ns|microseconds?|us|µs|μs|` +
	`milliseconds?|msecs?|ms|seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h|days?|d)(?:$|[^a-zµμ])`)

// units reads numbers with units from the beginning of a text, and returns what follows. Found is false without any.
func units(text string) (d time.Duration, rest string, found bool) {
	rest = text
	sum := 0.0 // in seconds
	for {
		match := quantity.FindStringSubmatchIndex(rest)
		if match == nil {
			break
		}
		n, err := strconv.ParseFloat(rest[match[2]:match[3]], 64)
		if err != nil && !math.IsInf(n, 1) {
			break
		}
		sum += n * secondsOf(strings.ToLower(rest[match[4]:match[5]]))
		found, rest = true, strings.TrimLeft(rest[match[5]:], " ,")
		rest = strings.TrimPrefix(rest, "and ")
	}
	return time.Duration(math.Round(min(sum*float64(time.Second), float64(bucket.MaxWait)))), rest, found
}

// secondsOf is the length of a unit that quantity matches, in seconds.
func secondsOf(unit string) float64 {
	switch {
	case strings.HasPrefix(unit, "n"):
		return 1e-9
	case strings.HasPrefix(unit, "mic"), strings.HasPrefix(unit, "u"), unit == "µs", unit == "μs":
		return 1e-6
	case strings.HasPrefix(unit, "ms"), strings.HasPrefix(unit, "mil"):
		return 1e-3
	case strings.HasPrefix(unit, "s"):
		return 1
	case strings.HasPrefix(unit, "m"):
		return 60
	case strings.HasPrefix(unit, "h"):
		return 3600
	}
	return 24 * 3600
}

// grainOf is about the unit of a duration's last digit.
func grainOf(text string) time.Duration {
	switch text = strings.ToLower(text); {
	case strings.Contains(text, "ms"), strings.Contains(text, "µs"), strings.Contains(text, "μs"),
		strings.Contains(text, "us"), strings.Contains(text, "ns"), strings.Contains(text, "mil"):
		return time.Millisecond
	case strings.Contains(text, "."):
		return 10 * time.Millisecond
	default:
		return time.Second
	}
}

// asking begins the part of a message that names a time: "Please try again in", "Please retry after", "Please wait".
var asking = regexp.MustCompile(`(?i)\b(?:try again|retry|wait)\s+(?:(?:in|after|for|at least|about)\s+)*`)

// Spoken reads the time in a message: "Please try again in 1m2.5s. Visit ...". Ok is false if it names none.
func Spoken(message string) (d time.Duration, ok bool) {
	const most = 4 << 10
	message = message[:min(len(message), most)]
	for _, at := range asking.FindAllStringIndex(message, -1) {
		if d, _, ok := units(message[at[1]:]); ok {
			return d, true
		}
	}
	return 0, false
}

// Clock is the moment of an answer on the service's own clock, or else now.
func Clock(h http.Header, now time.Time) time.Time {
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		return date
	}
	return now
}
