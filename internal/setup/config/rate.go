package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/headway-go/headway/internal/text/period"
)

const day = 24 * time.Hour

// ParseRate parses a rate of headway.yaml: "500/m", "10/s", "1_000 / 10s" or "10000/day". It does not check whether a
// meter may have this rate.
func ParseRate(text string) (tokens float64, each time.Duration, err error) {
	number, unit, ok := strings.Cut(text, "/")
	if !ok {
		return 0, 0, fmt.Errorf("%.100q must be a number, a slash and a period: %s", text, examples(text))
	}
	tokens, err = strconv.ParseFloat(strings.NewReplacer("_", "", " ", "").Replace(number), 64)
	if err != nil {
		return 0, 0, fmt.Errorf("%.100q must begin with a number, e.g. 500/m", text)
	}
	each, err = parsePeriod(strings.TrimSpace(unit))
	if err != nil {
		return 0, 0, fmt.Errorf("%.100q: %w", text, err)
	}
	return tokens, each, nil
}

// examples are rates with the number that a text begins with.
func examples(text string) string {
	number := text[:len(text)-len(strings.TrimLeft(text, "0123456789._"))]
	if number == "" || len(number) > 20 {
		number = "500"
	}
	return number + "/s a second, " + number + "/m a minute"
}

func parsePeriod(unit string) (time.Duration, error) {
	switch unit {
	case "s", "sec", "second":
		return time.Second, nil
	case "m", "min", "minute":
		return time.Minute, nil
	case "h", "hour":
		return time.Hour, nil
	case "d", "day":
		return day, nil
	}
	d, err := period.Parse(unit)
	if err != nil {
		return 0, fmt.Errorf("period %.100q must be s, m, h, d or a duration such as 10s", unit)
	}
	return d, nil
}
