package bucket

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Name is "limit" for the shared bucket and "limit:key" for a key's own. Limit names hold no colon, so names never
// collide.
func Name(limit, key string) string {
	if key == "" {
		return limit
	}
	return limit + ":" + key
}

// NameProblem says why no key, flow, queue or ID of a task can have this name. A bad name has more bytes than most, is
// not UTF-8, or holds a bad character: a control character, a line separator or a character that turns the direction of
// writing. Empty for a good name. Kind is what the text calls the name.
func NameProblem(kind, name string, most int) string {
	switch {
	case len(name) > most:
		return fmt.Sprintf("%s %q... has %d bytes: must be at most %d", kind, ShortText(name), len(name), most)
	case !utf8.ValidString(name):
		return fmt.Sprintf("%s %q must be valid UTF-8", kind, name)
	case strings.ContainsFunc(name, unreadable):
		return fmt.Sprintf("%s %q must hold no control characters", kind, name)
	}
	return ""
}

// unreadable says whether a character of a name would do something where people read it.
func unreadable(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Bidi_Control)
}

// ShortText is the beginning of a text that was refused.
func ShortText(text string) string { return strings.ToValidUTF8(text[:min(len(text), 100)], "\uFFFD") }

// RateText writes a rate as headway.yaml has it: "500/m", "5/10s".
func RateText(tokens float64, period time.Duration) string {
	number := strconv.FormatFloat(tokens, 'f', -1, 64)
	units := map[time.Duration]string{
		time.Second: "s", time.Minute: "m", time.Hour: "h", 24 * time.Hour: "d",
	}
	if unit, ok := units[period]; ok {
		return number + "/" + unit
	}
	return number + "/" + period.String()
}
