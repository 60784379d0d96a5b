package reservations_test

import (
	"testing"
	"time"

	"github.com/headway-go/headway/reservations"
)

func TestSameWindows(t *testing.T) {
	t.Parallel()
	day := reservations.PerDay("requests", 10)
	hour := day
	hour.Name, hour.Period, hour.Start = "tokens", time.Hour, 30*time.Minute
	bucket := reservations.Meter{Name: "bucket", Rate: 1, Period: time.Second, Capacity: 1}
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		meters []reservations.Meter
		late   time.Duration
		want   bool
	}{
		{[]reservations.Meter{day}, 12*time.Hour - 1, true},
		{[]reservations.Meter{day}, 12 * time.Hour, false},
		{[]reservations.Meter{day, hour}, 30*time.Minute - 1, true},
		{[]reservations.Meter{day, hour}, 30 * time.Minute, false},
		{[]reservations.Meter{day, bucket}, 0, false},
	} {
		if got := (reservations.Limit{Meters: c.meters}).SameWindows(noon, noon.Add(c.late)); got != c.want {
			t.Errorf("%d meters, %v: %v", len(c.meters), c.late, got)
		}
	}
}
