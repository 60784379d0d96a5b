// Package period reads durations that may have days, as rates have them: "1d", "1d12h", "90m".
package period

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"time"
)

const day = 24 * time.Hour

// days is the part of a duration in days, which comes first.
var days = regexp.MustCompile(`^([+-]?)(\d+\.?\d*|\.\d+)d`)

// Parse reads a duration in the syntax of time.ParseDuration, in which days may come first. A day has 24 hours. The
// error says what a duration looks like.
func Parse(text string) (time.Duration, error) {
	if d, ok := parse(text); ok {
		return d, nil
	}
	return 0, fmt.Errorf("%.40q must be a duration of days, hours, minutes and seconds, e.g. 90s, 1h30m or 1d", text)
}

func parse(text string) (d time.Duration, ok bool) {
	match := days.FindStringSubmatch(text)
	if match == nil {
		plain, err := time.ParseDuration(text)
		return plain, err == nil
	}
	n, err := strconv.ParseFloat(match[2], 64)
	whole := n * float64(day)
	if err != nil || whole >= math.MaxInt64 {
		return 0, false
	}
	d = time.Duration(math.Round(whole))
	if rest := text[len(match[0]):]; rest != "" {
		more, err := time.ParseDuration(rest)
		if err != nil || rest[0] == '-' || rest[0] == '+' || d+more < 0 {
			return 0, false
		}
		d += more
	}
	if match[1] == "-" {
		d = -d
	}
	return d, true
}

// Flag is a duration of a command line.
type Flag time.Duration

// Set implements pflag.Value.
func (f *Flag) Set(text string) error {
	d, err := Parse(text)
	*f = Flag(d)
	return err
}

// String implements pflag.Value. Help shows no default of zero if it is "0".
func (f *Flag) String() string {
	if *f == 0 {
		return "0"
	}
	return time.Duration(*f).String()
}

// Type implements pflag.Value.
func (*Flag) Type() string { return "duration" }
