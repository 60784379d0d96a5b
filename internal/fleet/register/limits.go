package register

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/reservations"
)

// ByName returns the limits of a Member.
func ByName(limits []reservations.Limit) map[string]reservations.Limit {
	all := map[string]reservations.Limit{}
	for _, limit := range limits {
		all[limit.Name] = limit
	}
	return all
}

// MeterTexts returns the settings of the meters of a limit in words, by meter: what workers compare.
func MeterTexts(limit reservations.Limit) map[string]string {
	texts := map[string]string{}
	for _, m := range limit.Meters {
		texts[m.Name] = MeterText(m)
	}
	return texts
}

// MeterText has all settings of a meter, for people. Workers compare it, so two meters that differ have two texts.
func MeterText(m reservations.Meter) string {
	text := MeterLine(m)
	if m.Kind == reservations.KindInFlight {
		return text
	}
	if m.MaxReserved != 0 {
		text += ", max_reserved " + number(max(0, m.MaxReserved))
	}
	if m.Headroom > 0 {
		text += ", headroom " + number(m.Headroom)
	}
	switch {
	case m.Kind != reservations.KindWindow:
	case m.Spread:
		text += ", in windows that start at a time of each bucket's own"
	default:
		layout := "15:04:05.999999999"
		if m.Period > 24*time.Hour {
			layout = "2006-01-02 " + layout // a day on which one starts
		}
		start := time.Unix(0, int64((m.Start%m.Period+m.Period)%m.Period)).UTC().Format(layout)
		text += ", in windows that start at " + strings.TrimSuffix(start, ":00") + " UTC"
	}
	if m.Settle != "" {
		text += ", settle " + string(m.Settle)
	}
	return text
}

// MeterLine is the rate of a meter and its capacity, for people.
func MeterLine(m reservations.Meter) string {
	if m.Kind == reservations.KindInFlight {
		return "at most " + number(m.Cap()) + " at once"
	}
	return RateLine(RateText(m), m.Cap())
}

// RateLine is a rate with the largest burst.
func RateLine(rate string, most float64) string {
	if most == 0 {
		return rate + ", one after another"
	}
	return rate + ", at most " + number(most) + " at once"
}

// RateText is the rate of a meter, or the bounds of one that finds it.
func RateText(m reservations.Meter) string {
	if m.Adaptive.Max == 0 {
		return bucket.RateText(m.Rate, m.Period)
	}
	text := fmt.Sprintf("adaptive from %s to %s", bucket.RateText(m.Rate, m.Period),
		bucket.RateText(m.Adaptive.Max, m.Period))
	if m.Adaptive.Ramp > 0 {
		text += fmt.Sprintf(" with a ramp of %v", m.Adaptive.Ramp)
	}
	return text
}

func number(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }
