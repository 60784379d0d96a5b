package register_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/fleet/register"
	"github.com/headway-go/headway/reservations"
)

// Workers compare these texts: two meters that differ in one setting have different texts.
func TestTextHasEachSetting(t *testing.T) {
	t.Parallel()
	change := map[string]func(*reservations.Meter){
		"Rate":        func(m *reservations.Meter) { m.Rate = 2 },
		"Period":      func(m *reservations.Meter) { m.Period = time.Hour },
		"Capacity":    func(m *reservations.Meter) { m.Capacity = 9 },
		"MaxReserved": func(m *reservations.Meter) { m.MaxReserved = 3 },
		"Kind":        func(m *reservations.Meter) { m.Kind = reservations.KindWindow },
		"Start":       func(m *reservations.Meter) { m.Kind, m.Start = reservations.KindWindow, time.Second },
		"Spread":      func(m *reservations.Meter) { m.Kind, m.Spread = reservations.KindWindow, true },
		"Headroom":    func(m *reservations.Meter) { m.Headroom = 1 },
		"Settle":      func(m *reservations.Meter) { m.Settle = reservations.SettleKeep },
		"Adaptive":    func(m *reservations.Meter) { m.Adaptive.Max = 10 },
	}
	texts := map[string]string{}
	add := func(name string, m reservations.Meter) {
		text := register.MeterText(m)
		if other, known := texts[text]; known {
			t.Errorf("%s has the text of %s: %s", name, other, text)
		}
		texts[text] = name
	}
	plain := reservations.Meter{Name: "tokens", Rate: 1, Period: time.Minute, Capacity: 5}
	add("the plain meter", plain)
	for _, field := range reflect.VisibleFields(reflect.TypeFor[reservations.Meter]()) {
		if field.Name == "Name" {
			continue
		}
		m := plain
		by := change[field.Name]
		if by == nil {
			t.Errorf("the test lacks the setting %s", field.Name)
			continue
		}
		by(&m)
		add(field.Name, m)
	}
}

func TestMeterText(t *testing.T) {
	t.Parallel()
	window := reservations.Meter{Rate: 10, Period: 24 * time.Hour, Kind: reservations.KindWindow}
	for _, c := range []struct {
		change func(*reservations.Meter)
		want   string
	}{
		{
			func(m *reservations.Meter) { m.Start = -16 * time.Hour },
			"10/d, at most 10 at once, in windows that start at 08:00 UTC",
		},
		{
			func(m *reservations.Meter) { m.Start = 90 * time.Second },
			"10/d, at most 10 at once, in windows that start at 00:01:30 UTC",
		},
		{
			func(m *reservations.Meter) { m.Period, m.Start = 48*time.Hour, 30*time.Hour },
			"10/48h0m0s, at most 10 at once, in windows that start at 1970-01-02 06:00 UTC",
		},
		{func(m *reservations.Meter) {
			m.Kind, m.Period, m.Capacity = "", time.Minute, 0.125
			m.Adaptive = reservations.Adaptive{Max: 600, Ramp: 5 * time.Minute}
		}, "adaptive from 10/m to 600/m with a ramp of 5m0s, at most 0.125 at once"},
		{func(m *reservations.Meter) { m.Kind, m.Capacity = "", reservations.None }, "10/d, one after another"},
	} {
		m := window
		c.change(&m)
		if m.MaxReserved = 0; register.MeterText(m) != c.want {
			t.Errorf("%q, want %q", register.MeterText(m), c.want)
		}
	}
}
