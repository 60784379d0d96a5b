package judge_test

import (
	"testing"
	"time"

	"github.com/headway-go/headway/internal/products/judge"
)

func TestMeter(t *testing.T) {
	t.Parallel()
	start := time.Unix(1000, 0)
	m := judge.NewBucket(10, 5, 100*time.Millisecond, start)
	moments := []struct {
		after time.Duration
		take  float64
		room  bool
		level float64 // after the charge, if there is room
		wait  time.Duration
	}{
		{0, 6, true, 0, 0}, // the slack adds one
		{0, 1, false, 0, 100 * time.Millisecond},
		{50 * time.Millisecond, 1, false, 0.5, 50 * time.Millisecond},
		{100 * time.Millisecond, 1, true, 0, 0},
		{90 * time.Millisecond, 1, false, 0, 100 * time.Millisecond}, // the clock ran back
		{time.Hour, 7, false, 6, 0},                                  // above full
		{time.Hour, -3, true, 6, 0},                                  // the level never rises above full
		{time.Hour, 2, true, 4, 0},
	}
	for i, mo := range moments {
		m.Fill(start.Add(mo.after))
		room := m.HasRoom(mo.take)
		wait := m.Wait(mo.take)
		if room {
			m.Add(-mo.take)
		}
		if room != mo.room || abs(m.Level-mo.level) > 1e-9 || wait != mo.wait {
			t.Errorf("moment %d: room %v, level %v, wait %v; want %v, %v, %v",
				i, room, m.Level, wait, mo.room, mo.level, mo.wait)
		}
	}
}

func TestMeterWithoutRate(t *testing.T) {
	t.Parallel()
	m := judge.NewBucket(0, 0, time.Second, time.Unix(0, 0))
	for range 3 {
		if !m.HasRoom(1e9) || m.Wait(1e9) != 0 {
			t.Fatal("a meter without a rate refused")
		}
		m.Add(-1e9)
	}
}

func abs(x float64) float64 { return max(x, -x) }
