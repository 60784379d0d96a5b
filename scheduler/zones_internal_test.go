package scheduler

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/robfig/cron/v3"
)

// zones are where clocks change in unusual ways: by half an hour or two hours, at midnight, in Ramadan, or once for
// ever.
func zones() []string {
	return []string{
		"Africa/Cairo", "Africa/Casablanca", "Africa/El_Aaiun", "Africa/Juba", "Africa/Khartoum", "America/Asuncion",
		"America/Caracas", "America/Godthab", "America/Havana", "America/Metlakatla", "America/New_York",
		"America/Santiago", "America/Sao_Paulo", "America/St_Johns", "Antarctica/Casey", "Antarctica/Macquarie",
		"Antarctica/Troll", "Asia/Almaty", "Asia/Amman", "Asia/Beirut", "Asia/Gaza", "Asia/Hebron", "Asia/Pyongyang",
		"Asia/Tehran", "Atlantic/Azores", "Australia/Lord_Howe", "Europe/Berlin", "Europe/Dublin", "Europe/Istanbul",
		"Europe/Volgograd", "Pacific/Apia", "Pacific/Chatham", "Pacific/Easter", "Pacific/Fiji", "Pacific/Kwajalein",
		"Pacific/Norfolk", "Pacific/Tongatapu",
	}
}

// Around each kind of change of the clocks since 1990, a minute that matches is a tick when a clock on the wall shows
// it. The second time it is a tick only if the expression is hourly.
func TestTicksAsOnAWall(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(9, 34))
	const specs, around = 8, 30 * time.Hour
	changes := map[string]bool{}
	for _, zone := range zones() {
		location, err := time.LoadLocation(zone)
		if err != nil {
			t.Errorf("%s: %v", zone, err)
			continue
		}
		at := time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC).In(location)
		for at.Year() < 2030 {
			_, end := at.ZoneBounds()
			if end.IsZero() {
				break
			}
			_, before := end.Add(-1).Zone()
			_, after := end.Zone()
			at = end
			change := fmt.Sprintf("%s, moved by %v", end.Format("15:04:05"), time.Duration(after-before)*time.Second)
			if changes[change] { // as in another zone or year
				continue
			}
			changes[change] = true
			for range specs {
				compareWithWall(t, randomSpec(r, at), zone, at, around)
			}
		}
	}
	t.Logf("%d kinds of changes of clocks", len(changes))
}

// randomSpec is an expression that is likely to tick around a change.
func randomSpec(r *rand.Rand, change time.Time) string {
	hour := (change.Hour() + r.IntN(5) + 22) % 24
	minutes := []string{"0", "30", "*/15", "*/20", "15,45", "59", "1", "*"}
	hours := []string{
		"*", "*/2", strconv.Itoa(hour), fmt.Sprintf("%d,%d", hour, (hour+1)%24), "0-3", "1-23/2", "0-23", "23,0",
	}
	days := []string{"* *", fmt.Sprintf("%d *", change.Day()), fmt.Sprintf("%d %d", change.Day(), change.Month()), "1 *"}
	weekdays := []string{"*", "*", "*", "sun", "5-7", "6"}
	pick := func(of []string) string { return of[r.IntN(len(of))] }
	return fmt.Sprintf("%s %s %s %s", pick(minutes), pick(hours), pick(days), pick(weekdays))
}

func compareWithWall(t *testing.T, spec, zone string, change time.Time, around time.Duration) {
	t.Helper()
	s, err := parseSchedule(spec, zone)
	if err != nil {
		t.Fatalf("%q in %q: %v", spec, zone, err)
	}
	plain, err := cron.ParseStandard("CRON_TZ=UTC " + withSunday(spec))
	if err != nil {
		t.Fatal(err)
	}
	hourly := isHourly(plain)
	from, until := change.Add(-around).Truncate(time.Minute), change.Add(around)
	next, shown := s.next(from.Add(-time.Second)), map[time.Time]bool{}
	for now := from; now.Before(until); now = now.Add(time.Minute) {
		wall := now.In(change.Location())
		read := time.Date(wall.Year(), wall.Month(), wall.Day(), wall.Hour(), wall.Minute(), 0, 0, time.UTC)
		ticks := plain.Next(read.Add(-time.Second)).Equal(read) && (hourly || !shown[read])
		shown[read] = true
		if got := next.Equal(now); got != ticks {
			t.Errorf("%q in %q at %v (%v): a tick %v, want %v", spec, zone, now.UTC(), wall, got, ticks)
			return
		}
		if ticks {
			next = s.next(next)
		}
	}
}
