package scheduler

import (
	"time"

	"github.com/robfig/cron/v3"
)

// localTicks are the ticks of a cron expression in a time zone. A local time that a change of the clocks leaves out has
// no tick. Of one that comes twice, the first one is the tick; an hourly expression ticks at both.
type localTicks struct {
	location *time.Location
	// next returns the first match after a time, as clocks in UTC show it: zero if there is none within five years.
	next   func(time.Time) time.Time
	hourly bool
}

// allHours are the bits of all hours.
const allHours = 1<<24 - 1

// isHourly reports whether an expression matches in each hour of a day.
func isHourly(s cron.Schedule) bool {
	spec, ok := s.(*cron.SpecSchedule)
	return ok && spec.Hour&allHours == allHours
}

// after returns the first tick after t, zero if there is none within five years.
//
// The clocks of a zone show a time of their own, which is the time in UTC plus an offset. Between two changes of the
// offset it goes on like any other time, so that the expression is matched there without a zone.
func (l localTicks) after(t time.Time) time.Time {
	at, from := t.In(l.location), t
	for {
		start, end := at.ZoneBounds()
		offset := offsetOf(at)
		match := l.next(from.UTC().Add(offset))
		if match.IsZero() {
			return match
		}
		tick := match.Add(-offset)
		switch {
		case !end.IsZero() && !tick.Before(end):
			at, from = end, end.Add(-1) // the end itself may be a tick
		case !l.hourly && !start.IsZero() && tick.Sub(start) < offsetOf(start.Add(-1))-offset:
			from = tick // the clocks showed this time before they were set back
		default:
			return tick
		}
	}
}

// offsetOf is what clocks show at a time, less what they show in UTC.
func offsetOf(t time.Time) time.Duration {
	_, seconds := t.Zone()
	return time.Duration(seconds) * time.Second
}
