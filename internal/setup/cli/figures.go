package cli

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/line/envelope"
	"github.com/headway-go/headway/reservations"
)

// Amount is a number of tokens with what a person wants to see of it.
func Amount(n float64) string { return strconv.FormatFloat(rounded(n), 'f', -1, 64) }

// Rate is a rate with as much of its tokens as Amount shows.
func Rate(tokens float64, period time.Duration) string {
	return bucket.RateText(cmp.Or(rounded(tokens), tokens), period)
}

// rounded has no decimals from 100 on, else two.
func rounded(n float64) float64 {
	if math.Abs(n) >= 100 {
		n = math.Round(n)
	}
	return math.Round(n*100) / 100
}

// Seconds is a time in seconds, rounded.
func Seconds(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	if d >= 10*time.Second {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Millisecond).String()
}

// Tokens are amounts by meter, in the order of the names.
func Tokens(tokens reservations.Tokens) string {
	var parts []string
	for _, meter := range slices.Sorted(maps.Keys(tokens)) {
		parts = append(parts, meter+" "+Amount(tokens[meter]))
	}
	return strings.Join(parts, ", ")
}

// Moment is a time, and how far it is from now.
func Moment(at, now time.Time) string {
	if at.IsZero() {
		return ""
	}
	text := envelope.ClockText(at)
	switch d := at.Sub(now); {
	case d > 0:
		return text + ", in " + Seconds(d.Seconds())
	case d < 0:
		return text + ", " + Seconds(-d.Seconds()) + " ago"
	default:
		return text + ", now"
	}
}

// Plural is a number with its noun.
func Plural(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

// TextRows are the rows of a text: its first line beside the name, each further one below. None for an empty text.
func TextRows(name, text string) [][]string {
	var rows [][]string
	for line := range strings.Lines(strings.TrimSpace(text)) {
		rows = append(rows, []string{name, strings.TrimSuffix(line, "\n")})
		name = ""
	}
	return rows
}

// FirstLine is the first line of a text, or the first letters of that line. If that leaves something out, more is
// added.
func FirstLine(text string, most int, more string) string {
	text, _, cut := strings.Cut(strings.TrimSpace(text), "\n")
	if letters := []rune(text); len(letters) > most {
		text, cut = string(letters[:most]), true
	}
	if cut {
		return text + more
	}
	return text
}
