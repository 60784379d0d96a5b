package scheduler

import (
	"errors"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// everyPrefix begins the specification of an interval.
const everyPrefix = "@every "

// everyLeast is the shortest interval.
const everyLeast = time.Second

// searchLongest is how far back the last tick is looked for: no expression has ticks that are further apart than the
// five years for which localTicks looks.
const searchLongest = 5 * 366 * 24 * time.Hour

// schedule says when a recurring task is due. All processes of a fleet get the same ticks.
type schedule struct {
	text string // zone and specification
	next func(time.Time) time.Time
}

// parseSchedule reads a cron expression of five fields, a descriptor such as @daily, or "@every 5m". Zone is the name
// of a time zone of the IANA database; empty is UTC. The error joins all faults, each a *reservations.FieldError of the
// spec or of the zone.
func parseSchedule(spec, zone string) (schedule, error) {
	spec = strings.TrimSpace(spec)
	if text, ok := strings.CutPrefix(spec, everyPrefix); ok {
		return parseEvery(strings.TrimSpace(text), zone)
	}
	var twice error
	if prefix, rest, ok := strings.Cut(spec, "="); ok && (prefix == "CRON_TZ" || prefix == "TZ") {
		if zone != "" {
			twice = invalid("spec", "%q names a zone, and so does the field zone: remove one", spec)
		}
		zone, spec, _ = strings.Cut(rest, " ")
	}
	location, err := time.LoadLocation(zone)
	if err != nil || zone == "Local" {
		err = invalid("zone", "%q is not known: use a name such as Europe/Berlin, or UTC", zone)
		location = time.UTC
	}
	local, wrong := parseTicks(spec, location)
	if err = errors.Join(twice, wrong, err); err != nil {
		return schedule{}, err
	}
	return schedule{text: "CRON_TZ=" + location.String() + " " + spec, next: local.after}, nil
}

// parseTicks reads a cron expression or a descriptor.
func parseTicks(spec string, location *time.Location) (localTicks, error) {
	if spec == "" {
		return localTicks{}, invalid("spec", `must not be empty: e.g. "*/5 * * * *", "@daily" or "@every 5m"`)
	}
	if strings.HasPrefix(spec, everyPrefix) {
		return localTicks{}, invalid("spec", "%q: an interval has no zone", spec)
	}
	parsed, err := cron.ParseStandard("CRON_TZ=UTC " + withSunday(strings.TrimSpace(spec)))
	if err != nil {
		return localTicks{}, invalid("spec", `%q must be minute, hour, day, month and weekday, e.g. "0 3 * * *", `+
			`or "@daily", or "@every 5m": %v`, spec, err)
	}
	local := localTicks{location: location, next: parsed.Next, hourly: isHourly(parsed)}
	if local.after(time.Unix(0, 0)).IsZero() {
		return localTicks{}, invalid("spec", "%q is never due", spec)
	}
	return local, nil
}

// parseEvery reads an interval. Its ticks are the multiples of it since 1970, so that all processes have the same.
func parseEvery(text, zone string) (schedule, error) {
	every, err := time.ParseDuration(text)
	switch {
	case err != nil:
		err = invalid("spec", "%q must be a duration with a unit, e.g. @every 5m", text)
	case every < everyLeast || every%time.Millisecond != 0:
		err = invalid("spec", "%v must be whole milliseconds, and at least %v", every, everyLeast)
	}
	if zone != "" {
		err = errors.Join(err, invalid("zone", "an interval has no zone, not %q", zone))
	}
	if err != nil {
		return schedule{}, err
	}
	return schedule{text: everyPrefix + every.String(), next: func(t time.Time) time.Time {
		ms := t.UnixMilli()
		return time.UnixMilli(ms - ms%every.Milliseconds() + every.Milliseconds()).UTC()
	}}, nil
}

// last is the last tick after from and not after now; zero where there is none.
func (s schedule) last(from, now time.Time) (last time.Time) {
	for back := time.Minute; back <= 2*searchLongest; back *= 2 { // the nearest stretch that has a tick
		start := now.Add(-back)
		if start.Before(from) {
			start = from
		}
		for t := s.next(start); !t.IsZero() && !t.After(now); t = s.next(t) {
			last = t
		}
		if !last.IsZero() || start.Equal(from) {
			return last
		}
	}
	return last
}
