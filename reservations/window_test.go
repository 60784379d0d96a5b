package reservations_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/reservations"
)

// windowOfDay is a limit of 10 a day, changed.
func windowOfDay(change func(*reservations.Meter)) reservations.Limit {
	m := reservations.PerDay("daily", 10)
	change(&m)
	return limitOf(m)
}

const day = 24 * time.Hour

func TestPerDayIsFromMidnightToMidnight(t *testing.T) {
	t.Parallel()
	l := windowOfDay(func(*reservations.Meter) {})
	if err := l.Validate(); err != nil {
		t.Fatal(err)
	}
	noon := virtualStart.Add(12 * time.Hour)
	b, o := bucket.Step(bucket.Bucket{}, bucket.Rules(l), noon, allow(10))
	if !o.Started() {
		t.Fatalf("%+v", o)
	}
	b, o = bucket.Step(b, bucket.Rules(l), noon.Add(time.Hour), start(1))
	if o.State != reserved || !o.RetryAt.Equal(virtualStart.Add(day)) {
		t.Errorf("%+v, want midnight", o)
	}
	if full := b.FullAt(); !full.Equal(virtualStart.Add(2 * day)) { // one of the next day is promised
		t.Errorf("full at %v", full)
	}
}

// A start in the last moment of a window is charged to that window, and the next one is whole.
func TestStartsBeforeMidnight(t *testing.T) {
	t.Parallel()
	l := windowOfDay(func(*reservations.Meter) {})
	midnight := virtualStart.Add(day)
	for _, before := range []time.Duration{
		time.Hour, 249 * time.Millisecond, 86 * time.Millisecond,
		80 * time.Millisecond, time.Millisecond, 11, 1,
	} {
		b, o := bucket.Step(bucket.Bucket{}, bucket.Rules(l), midnight.Add(-before), start(6))
		if !o.Started() || o.Hold != 0 {
			t.Errorf("%v before midnight: %+v", before, o)
		}
		if _, o = bucket.Step(b, bucket.Rules(l), midnight, allow(10)); !o.Started() {
			t.Errorf("%v before midnight 6 were taken, after it %+v", before, o)
		}
		if _, o = bucket.Step(b, bucket.Rules(l), midnight.Add(-1), allow(4)); !o.Started() {
			t.Errorf("%v before midnight 6 were taken, just before it %+v", before, o)
		}
	}
}

// A start that holds over the end of a window is charged to the next one, with nothing of what the first leaves.
func TestHoldOverMidnight(t *testing.T) {
	t.Parallel()
	midnight := virtualStart.Add(day)
	for _, c := range []struct {
		capacity, first, second, left float64
	}{
		{0, 10, 6, 4},
		{0, 6, 6, 4},
		{0, 6, 10, 0},
		{15, 10, 8, 7}, // 5 of the first window are left, and with the next one 15
		{15, 15, 8, 2},
		{25, 12, 20, 3}, // 13 are left, and with the next one 23
	} {
		l := windowOfDay(func(m *reservations.Meter) { m.Capacity = c.capacity })
		b, _ := bucket.Step(bucket.Bucket{}, bucket.Rules(l), midnight.Add(-time.Second), start(c.first))
		b, o := bucket.Step(b, bucket.Rules(l), midnight.Add(-100*time.Millisecond), promoted(c.second))
		if !o.Started() || o.Hold != 100*time.Millisecond {
			t.Errorf("%+v: %+v", c, o)
		}
		b, _ = bucket.Step(b, bucket.Rules(l), midnight, refresh())
		if b.Meters[0].Started != c.left {
			t.Errorf("%+v: %v left", c, b.Meters[0].Started)
		}
	}
}

// A promise is a number of tokens: what comes back until another meter lets the task start fills the reserved balance
// again.
func TestPromiseBehindAnotherMeter(t *testing.T) {
	t.Parallel()
	l := limitOf(window("w", 10, 0, 60, inf), perSecond("slow", 1, 100, inf))
	b := life(t, l, []moment{
		{0, start(0, 100), started, 0},
		{0, start(6, 90), reserved, 90},
		{0, start(0, 0), reserved, 90},
		{60, refresh(), settled, 0},
	})
	near(t, balances(b), 10, 10, 60, -30)
}

// Windows that are spread start where the bucket's name says: the same on all machines, another for another key.
func TestSpreadWindows(t *testing.T) {
	t.Parallel()
	limit := windowOfDay(func(m *reservations.Meter) { m.Spread = true })
	wait := func(key string) time.Duration {
		l := setupLimiter(t, limit)
		c := reservations.Charge{Limit: "fleet", Key: key, Tokens: reservations.Tokens{"daily": 10}}
		if g, err := l.Allow(t.Context(), c); err != nil || !g.Started() {
			t.Fatalf("%+v, %v", g, err)
		}
		o, err := l.Check(t.Context(), c)
		if err != nil || o.State != refused || o.Wait() <= 0 || o.Wait() > day {
			t.Fatalf("key %q: %+v, %v", key, o, err)
		}
		return o.Wait()
	}
	waits := map[time.Duration]bool{}
	for i := range 20 {
		key := strconv.Itoa(i)
		waits[wait(key)] = true
		if again := wait(key); !waits[again] {
			t.Errorf("key %s starts at another time on another machine: %v", key, again)
		}
	}
	if len(waits) < 19 {
		t.Errorf("20 buckets start at %d times", len(waits))
	}
}

// Before its Start a meter lacks what comes back until then, so that it is full at its Start.
func TestWindowThatStartsLater(t *testing.T) {
	t.Parallel()
	for _, days := range []int{2, 200 * 365} { // such numbers of nanoseconds are no exact float64
		first := virtualStart.AddDate(0, 0, days)
		l := windowOfDay(func(m *reservations.Meter) { m.Capacity, m.Start = 25, time.Duration(first.UnixNano()) })
		for _, early := range []time.Duration{time.Microsecond, time.Hour, day} { // one window is to come
			b, o := bucket.Step(bucket.Bucket{}, bucket.Rules(l), first.Add(-early), allow(16))
			if near(t, balances(b), 15, 15); o.State != refused || !o.RetryAt.Equal(first) {
				t.Errorf("%v before %d days: %+v", early, days, o)
			}
			if full := b.FullAt(); !full.Equal(first) {
				t.Errorf("%v before %d days: full at %v", early, days, full)
			}
			if _, o := bucket.Step(b, bucket.Rules(l), first, allow(25)); !o.Started() {
				t.Errorf("at its start: %+v", o)
			}
		}
		b, _ := bucket.Step(bucket.Bucket{}, bucket.Rules(l), first.Add(-day-1), refresh())
		near(t, balances(b), 5, 5)
	}
}
