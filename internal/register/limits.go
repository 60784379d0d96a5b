package register

import (
	"fmt"
	"strconv"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/reservations"
)

// LimitTexts returns the settings of meters in words, by limit and meter: what workers compare.
func LimitTexts(limits []reservations.Limit) map[string]map[string]string {
	texts := map[string]map[string]string{}
	for _, limit := range limits {
		texts[limit.Name] = map[string]string{}
		for _, m := range limit.Meters {
			texts[limit.Name][m.Name] = MeterText(m)
		}
	}
	return texts
}

// MeterText is what counts of a meter, for people.
func MeterText(m reservations.Meter) string {
	if m.Kind == reservations.KindInFlight {
		return "at most " + number(m.Cap()) + " at once"
	}
	text := bucket.RateText(m.Rate, m.Period) + " capacity " + number(m.Cap())
	if m.Adaptive.Max > 0 {
		text = fmt.Sprintf("adaptive %s to %s capacity %s", bucket.RateText(m.Rate, m.Period),
			bucket.RateText(m.Adaptive.Max, m.Period), number(m.Cap()))
	}
	if m.Adaptive.Ramp > 0 {
		text += fmt.Sprintf(" ramp %v", m.Adaptive.Ramp)
	}
	if m.MaxReserved != reservations.Unlimited {
		text += " max_reserved " + number(max(0, m.MaxReserved))
	}
	if m.Headroom > 0 {
		text += " headroom " + number(m.Headroom)
	}
	if m.Kind == reservations.KindWindow {
		text += " window"
		if m.Spread {
			text += " spread"
		} else if m.Start != 0 {
			text += fmt.Sprintf(" from %v", m.Start)
		}
	}
	if m.Settle != "" {
		text += " settle " + string(m.Settle)
	}
	return text
}

func number(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }
