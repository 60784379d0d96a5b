package scheduler

import (
	"strings"
	"testing"
	"time"
)

func TestSchedules(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ spec, zone, from, next string }{
		{"*/5 * * * *", "", "2026-03-01T10:03:00Z", "2026-03-01T10:05:00Z"},
		{"@daily", "", "2026-03-01T10:03:00Z", "2026-03-02T00:00:00Z"},
		{"@hourly", "", "2026-03-01T10:00:00Z", "2026-03-01T11:00:00Z"},
		{"0 3 * * *", "Europe/Berlin", "2026-03-01T10:03:00Z", "2026-03-02T02:00:00Z"},
		{"0 3 * * *", "Europe/Berlin", "2026-07-01T10:03:00Z", "2026-07-02T01:00:00Z"},
		{"CRON_TZ=Asia/Tokyo 0 3 * * *", "", "2026-03-01T10:03:00Z", "2026-03-01T18:00:00Z"},
		{"TZ=Asia/Tokyo @daily", "", "2026-03-01T10:03:00Z", "2026-03-01T15:00:00Z"},
		{"0 0 29 2 *", "", "2026-03-01T10:03:00Z", "2028-02-29T00:00:00Z"},
		{"@every 5m", "", "2026-03-01T10:03:17.5Z", "2026-03-01T10:05:00Z"},
		{"@every 1500ms", "", "1970-01-01T00:00:03Z", "1970-01-01T00:00:04.5Z"},
		{"@every 24h", "", "2026-03-01T10:03:00Z", "2026-03-02T00:00:00Z"},
	} {
		s, err := parseSchedule(test.spec, test.zone)
		if err != nil {
			t.Errorf("%q in %q: %v", test.spec, test.zone, err)
			continue
		}
		from, _ := time.Parse(time.RFC3339, test.from)
		next, _ := time.Parse(time.RFC3339, test.next)
		if got := s.next(from); !got.Equal(next) {
			t.Errorf("%q in %q: after %v comes %v, want %v", test.spec, test.zone, from, got.UTC(), next)
		}
		if got := s.last(from, next); !got.Equal(next) {
			t.Errorf("%q in %q: the last tick is %v, want %v", test.spec, test.zone, got.UTC(), next)
		}
		if got := s.last(next, next.Add(time.Millisecond)); !got.IsZero() {
			t.Errorf("%q in %q: %v after %v", test.spec, test.zone, got.UTC(), next)
		}
	}
}

// After a long outage the last tick is found quickly.
func TestTheLastTickAfterALongTime(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 7, 1, 10, 3, 7, 0, time.UTC)
	for spec, want := range map[string]time.Time{
		"@every 1s": now, "* * * * *": now.Truncate(time.Minute), "@yearly": time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		"0 0 29 2 *": time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC),
	} {
		s, err := parseSchedule(spec, "")
		if err != nil {
			t.Fatal(err)
		}
		if got := s.last(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), now); !got.Equal(want) {
			t.Errorf("%s: %v, want %v", spec, got, want)
		}
	}
}

func TestNonsenseIsNoSchedule(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ spec, zone, want string }{
		{"", "", "must not be empty"},
		{"", "Mars", "must not be empty"},
		{"", "Mars", `zone: "Mars" is not known`},
		{"61 * * * *", "Mars", "above maximum"},
		{"61 * * * *", "Mars", `zone: "Mars" is not known`},
		{"0 0 31 2 *", "Mars", "is never due"},
		{"@every x", "Mars", "must be a duration"},
		{"@every x", "Mars", "zone: an interval has no zone"},
		{"every day", "", "expected exactly 5 fields"},
		{"61 * * * *", "", "above maximum"},
		{"* * * * * *", "", "expected exactly 5 fields"},
		{"*/0 * * * *", "", "step of range"},
		{"@never", "", "unrecognized"},
		{"0 0 31 2 *", "", "is never due"},
		{"TZ=0", "", `"0" is not known`},
		{"CRON_TZ=", "", "must not be empty"},
		{"@every", "", "unrecognized"},
		{"@every x", "", "must be a duration"},
		{"@every -5m", "", "at least 1s"},
		{"@every 10ms", "", "at least 1s"},
		{"@every 1h", "Europe/Berlin", "has no zone"},
		{"CRON_TZ=UTC @every 1h", "", "has no zone"},
		{"0 3 * * *", "Mars/Base", "is not known"},
		{"0 3 * * *", "Local", "is not known"},
		{"CRON_TZ=UTC 0 3 * * *", "UTC", "remove one"},
		{"0 3 * * *", "../../etc/passwd", "is not known"},
		{strings.Repeat("9", 10_000) + " * * * *", "", "must be minute"},
	} {
		_, err := parseSchedule(test.spec, test.zone)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%.40q in %q: %.200v, want %q", test.spec, test.zone, err, test.want)
		}
	}
}
