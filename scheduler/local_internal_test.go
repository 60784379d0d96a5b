package scheduler

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// Berlin changes its clocks from 2 to 3 on 29 March, and from 3 to 2 on 25 October. Havana changes them from 0 to 1 on
// 8 March, and from 1 to 0 on 1 November. Lord Howe changes them from 2 to 1:30 on 5 April, and from 2 to 2:30 on 4
// October. Apia left out 30 December 2011.
func TestTicksWhenClocksAreChanged(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		spec, zone, from, until string
		want                    []string
	}{
		// A fixed hour ticks once where it comes twice: the first time.
		{
			"30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", "2026-10-26T12:00:00Z",
			[]string{"2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"},
		},
		{"0 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", "2026-10-25T12:00:00Z", []string{"2026-10-25T00:00:00Z"}},
		{"0 3 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", "2026-10-25T12:00:00Z", []string{"2026-10-25T02:00:00Z"}},
		{
			"0 0 * * *", "America/Havana", "2026-10-31T12:00:00Z", "2026-11-02T12:00:00Z",
			[]string{"2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z"},
		},
		{"@daily", "America/Havana", "2026-10-31T12:00:00Z", "2026-11-01T12:00:00Z", []string{"2026-11-01T04:00:00Z"}},
		{
			"45 1 * * *", "Australia/Lord_Howe", "2026-04-04T00:00:00Z", "2026-04-05T00:00:00Z",
			[]string{"2026-04-04T14:45:00Z"},
		},
		{
			"15 1 * * *", "Australia/Lord_Howe", "2026-04-04T00:00:00Z", "2026-04-05T00:00:00Z",
			[]string{"2026-04-04T14:15:00Z"},
		},
		{
			"15 2 * * *", "Australia/Lord_Howe", "2026-04-04T00:00:00Z", "2026-04-05T00:00:00Z",
			[]string{"2026-04-04T15:45:00Z"},
		},
		{
			"*/20 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", "2026-10-25T12:00:00Z",
			[]string{"2026-10-25T00:00:00Z", "2026-10-25T00:20:00Z", "2026-10-25T00:40:00Z"},
		},
		{
			"30 1-3 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", "2026-10-25T12:00:00Z",
			[]string{"2026-10-24T23:30:00Z", "2026-10-25T00:30:00Z", "2026-10-25T02:30:00Z"},
		},
		{
			"0 */2 * * *", "Europe/Berlin", "2026-10-24T22:00:00Z", "2026-10-25T04:00:00Z",
			[]string{"2026-10-25T00:00:00Z", "2026-10-25T03:00:00Z"},
		},
		// Troll sets its clocks back by two hours, Casablanca in Ramadan, Azores from 1 to 0, the day before in local time.
		{
			"30 1,2 * * *", "Antarctica/Troll", "2026-10-24T12:00:00Z", "2026-10-25T12:00:00Z",
			[]string{"2026-10-24T23:30:00Z", "2026-10-25T00:30:00Z"},
		},
		{
			"30 2 * * *", "Africa/Casablanca", "2026-02-14T12:00:00Z", "2026-02-16T12:00:00Z",
			[]string{"2026-02-15T01:30:00Z", "2026-02-16T02:30:00Z"},
		},
		{"@midnight", "Atlantic/Azores", "2026-10-24T12:00:00Z", "2026-10-25T12:00:00Z", []string{"2026-10-25T00:00:00Z"}},
		{
			"0 1 * * 7", "Europe/Dublin", "2026-10-24T12:00:00Z", "2026-10-25T12:00:00Z", []string{"2026-10-25T00:00:00Z"},
		},
		// An hourly one ticks in each hour that passes.
		{
			"30 * * * *", "Europe/Berlin", "2026-10-24T23:00:00Z", "2026-10-25T03:00:00Z",
			[]string{"2026-10-24T23:30:00Z", "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-25T02:30:00Z"},
		},
		{
			"0 0-23 * * *", "America/Havana", "2026-11-01T03:30:00Z", "2026-11-01T06:30:00Z",
			[]string{"2026-11-01T04:00:00Z", "2026-11-01T05:00:00Z", "2026-11-01T06:00:00Z"},
		},
		{
			"@hourly", "Australia/Lord_Howe", "2026-04-04T13:30:00Z", "2026-04-04T17:00:00Z",
			[]string{"2026-04-04T14:00:00Z", "2026-04-04T15:30:00Z", "2026-04-04T16:30:00Z"},
		},
		{
			"*/15 * * * *", "Australia/Lord_Howe", "2026-04-04T14:30:00Z", "2026-04-04T15:45:00Z",
			[]string{
				"2026-04-04T14:45:00Z", "2026-04-04T15:00:00Z", "2026-04-04T15:15:00Z", "2026-04-04T15:30:00Z",
				"2026-04-04T15:45:00Z",
			},
		},
		// A local time that is left out has no tick.
		{"30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-30T12:00:00Z", []string{"2026-03-30T00:30:00Z"}},
		{"0 3 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-29T12:00:00Z", []string{"2026-03-29T01:00:00Z"}},
		{"0 0 * * *", "America/Havana", "2026-03-07T12:00:00Z", "2026-03-09T12:00:00Z", []string{"2026-03-09T04:00:00Z"}},
		{"0 1 * * *", "America/Havana", "2026-03-07T12:00:00Z", "2026-03-08T12:00:00Z", []string{"2026-03-08T05:00:00Z"}},
		{"15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00Z", "2026-10-04T12:00:00Z", nil},
		{
			"45 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00Z", "2026-10-04T12:00:00Z",
			[]string{"2026-10-03T15:45:00Z"},
		},
		{
			"30 * * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", "2026-03-29T02:00:00Z",
			[]string{"2026-03-29T00:30:00Z", "2026-03-29T01:30:00Z"},
		},
		{
			"0 9 * * *", "Pacific/Apia", "2011-12-29T12:00:00Z", "2011-12-31T12:00:00Z",
			[]string{"2011-12-29T19:00:00Z", "2011-12-30T19:00:00Z"},
		},
		{"0 9 30 12 *", "Pacific/Apia", "2011-12-29T12:00:00Z", "2012-12-31T12:00:00Z", []string{"2012-12-29T19:00:00Z"}},
		// Intervals have no zone.
		{
			"@every 1h", "", "2026-10-25T00:30:00Z", "2026-10-25T02:30:00Z",
			[]string{"2026-10-25T01:00:00Z", "2026-10-25T02:00:00Z"},
		},
	} {
		s, err := parseSchedule(c.spec, c.zone)
		if err != nil {
			t.Errorf("%q in %q: %v", c.spec, c.zone, err)
			continue
		}
		from, _ := time.Parse(time.RFC3339, c.from)
		until, _ := time.Parse(time.RFC3339, c.until)
		var got []string
		for at := s.next(from); !at.IsZero() && !at.After(until) && len(got) < 10; at = s.next(at) {
			got = append(got, at.UTC().Format(time.RFC3339))
			if next := s.next(at.Add(-time.Nanosecond)); !next.Equal(at) {
				t.Errorf("%q in %q: just before %v the next tick is %v", c.spec, c.zone, at, next)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%q in %q: ticks at %v, want %v", c.spec, c.zone, got, c.want)
		}
	}
}

// Weekdays have the numbers of Vixie cron: 0 and 7 are Sundays, and a range may end with one. The first day is a
// Monday.
func TestWeekdays(t *testing.T) {
	t.Parallel()
	for spec, want := range map[string]string{
		"0 0 * * 7": "Sun", "0 0 * * 0": "Sun", "0 0 * * sun": "Sun", "0 0 * * 5-7": "Fri Sat Sun",
		"0 0 * * fri-sun": "Fri Sat Sun", "0 0 * * FRI-SUN": "Fri Sat Sun", "0 0 * * fri-7": "Fri Sat Sun",
		"0 0 * * 7-7": "Sun", "0 0 * * 0-7/2": "Tue Thu Sat Sun", "0 0 * * 0-7/3": "Wed Sat Sun",
		"0 0 * * sun-7": "Mon Tue Wed Thu Fri Sat Sun", "0 0 * * Sun-Tue": "Mon Tue Sun", "0 0 * * 1-7/3": "Mon Thu Sun",
		"0 0 * * mon,7": "Mon Sun", "0 0 * * 07": "Sun", "0 0 * * 05-07": "Fri Sat Sun", "0 0 * * sun-sun": "Sun",
		"0 0 * * 1-7": "Mon Tue Wed Thu Fri Sat Sun", "0 0 * * 0-7": "Mon Tue Wed Thu Fri Sat Sun",
		"0 0 * * 1-7/2": "Mon Wed Fri Sun", "0 0 * * 5-7/2": "Fri Sun", "0 0 * * 3,7": "Wed Sun",
		"0 0 * * mon,sat-sun": "Mon Sat Sun", "0 0 * * mon-fri": "Mon Tue Wed Thu Fri", "0 0 * * 0-2": "Mon Tue Sun",
		"0 0 * * sun-tue": "Mon Tue Sun", "0 0 * * */3": "Wed Sat Sun", "0 0 6 * 7": "Tue Sun",
	} {
		s, err := parseSchedule(spec, "")
		if err != nil {
			t.Errorf("%q: %v", spec, err)
			continue
		}
		var got []string
		monday := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
		for at := s.next(monday.Add(-1)); at.Before(monday.AddDate(0, 0, 7)); at = s.next(at) {
			got = append(got, at.Weekday().String()[:3])
		}
		if !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%q: %s, want %s", spec, got, want)
		}
	}
	for _, spec := range []string{
		"0 0 * * 8", "0 0 * * 5-8", "0 0 * * 7-5", "0 0 * * fri-son", "0 0 * * 5-7/0", "7 0 * *",
	} {
		if _, err := parseSchedule(spec, ""); err == nil {
			t.Errorf("%q is no error", spec)
		}
	}
}
