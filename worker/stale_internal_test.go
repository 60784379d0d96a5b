package worker

import (
	"testing"
	"time"

	"github.com/headway-go/headway/reservations"
)

func TestPaceIsTheShortestOfLate(t *testing.T) {
	t.Parallel()
	var p pace
	for _, c := range []struct{ took, want time.Duration }{
		{20 * time.Millisecond, 20 * time.Millisecond},
		{10 * time.Millisecond, 10 * time.Millisecond},
		{110 * time.Millisecond, 11 * time.Millisecond},
		{5 * time.Millisecond, 5 * time.Millisecond},
	} {
		if got := p.answered(c.took); got != c.want {
			t.Errorf("after an answer in %v the usual is %v, want %v", c.took, got, c.want)
		}
	}
	for range 1000 {
		p.answered(time.Second)
	}
	if got := p.answered(time.Second); got < 900*time.Millisecond {
		t.Errorf("a store that became slow is still taken to answer in %v", got)
	}
}

func TestStale(t *testing.T) {
	t.Parallel()
	asked := time.Now()
	for name, c := range map[string]struct {
		state reservations.State
		hold  time.Duration
		after time.Duration
		want  bool
	}{
		"in time":          {reservations.StateNew, 0, 52 * time.Millisecond, false},
		"held":             {reservations.StateReserved, 200 * time.Millisecond, 252 * time.Millisecond, false},
		"stalled":          {reservations.StateNew, 0, 60 * time.Millisecond, true},
		"held too long":    {reservations.StateReserved, 200 * time.Millisecond, 260 * time.Millisecond, true},
		"stalled once":     {reservations.StateLate, 0, 60 * time.Millisecond, false},
		"asked just now":   {reservations.StateNew, 0, 0, false},
		"held, in no time": {reservations.StateNew, 100 * time.Millisecond, 0, false},
	} {
		d := &delivery{asked: asked, usual: 2 * time.Millisecond, place: reservations.Place{State: c.state}, outcome: reservations.Outcome{Hold: c.hold}}
		if got := d.stale(asked.Add(c.after)); got != c.want {
			t.Errorf("%s: stale is %v", name, got)
		}
	}
}
