package dashboard

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/headway-go/headway/internal/setup/cli"
)

// number is an amount with what a person wants to see of it, in groups of three digits.
func number(n float64) string {
	whole, part, _ := strings.Cut(cli.Amount(n), ".")
	sign := ""
	if rest, negative := strings.CutPrefix(whole, "-"); negative {
		sign, whole = "−", rest
	}
	const group = "\u202f" // a narrow space that does not break
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + group + whole[i:]
	}
	if part != "" {
		part = "." + part
	}
	return sign + whole + part
}

// percent is a share of a whole, from 0 to 100.
func percent(part, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return math.Round(1000*max(0, min(1, part/whole))) / 10
}

func count(n int, noun string) string { return number(float64(n)) + " " + plural(n, noun, noun+"s") }

func plural(n int, one, more string) string {
	if n == 1 {
		return one
	}
	return more
}

// seconds is a time in its two largest units.
func seconds(s float64) string { return duration(time.Duration(s * float64(time.Second))) }

func duration(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < 0:
		return "−" + duration(-d)
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	case d < 10*time.Second:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	case d < time.Minute:
		return strconv.Itoa(int(d.Seconds())) + " s"
	case d < time.Hour:
		return two(d, time.Minute, " min", time.Second, " s")
	case d < day:
		return two(d, time.Hour, " h", time.Minute, " min")
	default:
		return two(d, day, " d", time.Hour, " h")
	}
}

func two(d, unit time.Duration, name string, less time.Duration, lessName string) string {
	text := strconv.Itoa(int(d/unit)) + name
	if rest := int(d % unit / less); rest > 0 {
		text += " " + strconv.Itoa(rest) + lessName
	}
	return text
}

// clock is a moment as machines and people read it.
func clock(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format("2006-01-02 15:04:05") + " UTC"
}

// ago is how far a moment is from now.
func ago(at, now time.Time) string {
	switch d := now.Sub(at); {
	case at.IsZero():
		return ""
	case d >= time.Second:
		return duration(d) + " ago"
	case d <= -time.Second:
		return "in " + duration(-d)
	default:
		return "now"
	}
}

// span is a part of a text: words, or a command to copy.
type span struct {
	Text string
	Code bool
}

// spans are the parts of a text that has commands between backticks. What others may have put between backticks, as a
// tenant in its key, is no command.
func spans(text string) (all []span) {
	plain := true
	for i, part := range strings.Split(text, "`") {
		code := i%2 == 1 && strings.HasPrefix(part, "headway ")
		if i > 0 && plain && !code { // no command is beside this backtick
			part = "`" + part
		}
		all, plain = append(all, span{part, code}), !code
	}
	return all
}
