package config

import (
	"fmt"
	"time"

	"github.com/headway-go/headway/reservations"
)

// windowValue makes a meter a fixed window with a start time. The zero value is no window.
type windowValue struct {
	kind   reservations.Kind
	start  time.Duration
	spread bool
}

// windowOf parses the start of a window. "08:00" is a time of day in UTC; windows shorter than a day start that far
// into each period. "2026-01-05T08:00:00Z" is a time, for periods that do not divide a day. With spread, each bucket
// starts its windows at a time of its own.
func windowOf(data any) (windowValue, error) {
	w := windowValue{kind: reservations.KindWindow}
	text, _ := data.(string)
	if text == "spread" {
		w.spread = true
		return w, nil
	}
	if at, err := time.Parse("15:04", text); err == nil {
		w.start = time.Duration(at.Hour())*time.Hour + time.Duration(at.Minute())*time.Minute
		return w, nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil && at.Year() >= 1970 && at.Year() < 2200 {
		w.start = time.Duration(at.UnixNano())
		return w, nil
	}
	return windowValue{}, fmt.Errorf(
		`%v must be when a window starts: "08:00" (UTC), a moment such as 2026-01-05T08:00:00Z, or spread`, data)
}
