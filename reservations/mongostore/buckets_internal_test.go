package mongostore

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headway-go/headway/reservations"
)

// A bucket that went through all that leaves a trace in it is read as it was written.
func TestEncodeBucket(t *testing.T) {
	t.Parallel()
	at := time.UnixMilli(1_800_000_000_123)
	limit := reservations.Limit{Name: "api", Meters: []reservations.Meter{
		{Name: "requests", Rate: 7, Period: time.Minute, Capacity: 3, MaxReserved: 11}, reservations.PerDay("daily", 100), reservations.PerSecond("tokens", 10),
	}}
	limit.Meters[1].Start = 8*time.Hour + 250*time.Millisecond
	n := []float64{2, 1, 10}
	var b reservations.Bucket
	step := func(after time.Duration, r reservations.Request) {
		t.Helper()
		at = at.Add(after)
		b, _ = reservations.Step(b, limit, at, r)
		got, err := decodeBucket(raw(t, encodeBucket(b, limit)))
		if diff := cmp.Diff(b, got, cmp.Comparer(func(a, b time.Time) bool { return a.Sub(b).Abs() < 2*time.Millisecond })); err != nil || diff != "" {
			t.Fatalf("after %s (%v) (-wrote +read):\n%s", r.Op, err, diff)
		}
	}
	for range 4 {
		step(time.Millisecond, reservations.Request{Op: reservations.OpBegin, Tokens: n})
	}
	step(time.Second, reservations.Request{Op: reservations.OpBlock, Tokens: []float64{0, 0, 0}, For: time.Minute})
	for id := range int64(70) {
		step(time.Millisecond, reservations.Request{Op: reservations.OpSettle, Tokens: []float64{0, 0, .5}, ID: id - 35})
	}
	limit.Meters = limit.Meters[1:]
	limit.Meters[1].Rate = 100
	step(time.Second, reservations.Request{Op: reservations.OpBegin, Tokens: n[1:]})
	if len(b.Idle) != 1 || b.Keep.IsZero() || b.Speed == 1 || b.Blocked == 0 || b.Forgot.IsZero() || len(b.Settled) == 0 {
		t.Errorf("not all that a bucket can hold was written: %+v", b)
	}
	urgent := reservations.Limit{Name: "api", Meters: []reservations.Meter{{Name: "requests", Rate: 7, Period: time.Minute, Capacity: 3, Headroom: 1}}}
	limit, n = urgent, []float64{3}
	for range 3 {
		step(time.Second, reservations.Request{Op: reservations.OpReserve, Tokens: n, Urgent: true})
	}
	if len(b.Express) != 1 || len(b.Owed) != 1 {
		t.Errorf("of urgent tasks was not written: %+v", b)
	}
	step(time.Second, reservations.Request{Op: reservations.OpBlock, Tokens: n, For: time.Hour})
	if b.ExpressShift == 0 {
		t.Errorf("of urgent tasks was not written: %+v", b)
	}
}
