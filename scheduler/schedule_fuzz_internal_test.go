package scheduler

import (
	"testing"
	"time"
)

// Any schedule is refused, or its ticks are in order. The last tick before a time has no later tick before that time.
func FuzzSchedule(f *testing.F) {
	for _, spec := range []string{
		"* * * * *", "0 3 * * *", "@daily", "@every 5m", "@every 1s", "@every 9999999h", "0 0 29 2 *", "0 0 30 2 *",
		"0 0 31 4,6 1", "TZ=Europe/Berlin 30 2 * * *", "CRON_TZ=../../etc/passwd * * * * *", "*/0 * * * *", "1-99 * * * *",
		"@every -1s", "@reboot", "", "\x00", "*/1000000000000 * * * *", "@every 1ns", "59 23 31 12 0-7",
	} {
		f.Add(spec, "", int64(1_767_225_600))
		f.Add(spec, "Europe/Berlin", int64(1_774_746_000)) // about where summer time begins
	}
	f.Fuzz(func(t *testing.T, spec, zone string, seconds int64) {
		s, err := parseSchedule(spec, zone)
		if err != nil || seconds < 0 || seconds > 4_000_000_000 {
			return
		}
		now := time.Unix(seconds, 0)
		first := s.next(now)
		if first.IsZero() {
			return
		}
		second := s.next(first)
		if !first.After(now) || !second.IsZero() && !second.After(first) {
			t.Errorf("%q: %v, %v, %v", spec, now, first, second)
		}
		if last := s.last(now, first); !last.Equal(first) {
			t.Errorf("%q: the last tick until %v is %v", spec, first, last)
		}
		if last := s.last(now, first.Add(-time.Nanosecond)); !last.IsZero() {
			t.Errorf("%q: there is a tick at %v before %v", spec, last, first)
		}
	})
}
