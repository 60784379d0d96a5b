package config_test

import (
	"strings"
	"testing"

	"github.com/headway-go/headway/internal/setup/config"
	"github.com/headway-go/headway/reservations"
)

func TestLimitWarnings(t *testing.T) {
	t.Parallel()
	bounded := func(name string, perMinute, maxReserved float64) reservations.Meter {
		m := reservations.PerMinute(name, perMinute)
		m.MaxReserved = maxReserved
		return m
	}
	for _, c := range []struct {
		name   string
		meters []reservations.Meter
		want   []string // part of each
	}{
		{"unlimited", []reservations.Meter{reservations.PerMinute("a", 1), reservations.PerDay("b", 1)}, nil},
		{"one bounded", []reservations.Meter{reservations.PerMinute("a", 1), bounded("b", 60, 10)}, nil},
		{"ten times", []reservations.Meter{bounded("a", 60, 100), bounded("b", 600, 100)}, nil},
		{
			"more",
			[]reservations.Meter{bounded("a", 60, 101), bounded("b", 600, 100)},
			[]string{"of b is 10s ahead, that of a 1m41s"},
		},
		{
			"one has none",
			[]reservations.Meter{bounded("a", 60, 1), bounded("b", 600, reservations.None)},
			[]string{"of b is 0s ahead"},
		},
	} {
		got := config.Warnings(reservations.Limit{Name: "api", Meters: c.meters})
		if len(got) != len(c.want) {
			t.Errorf("%s: %q", c.name, got)
			continue
		}
		for i, want := range c.want {
			if !strings.Contains(got[i], want) || !strings.Contains(got[i], `"api"`) {
				t.Errorf("%s: %q, want %q", c.name, got[i], want)
			}
		}
	}
}

func TestHeadroomWarnings(t *testing.T) {
	t.Parallel()
	urgentLimit := func() reservations.Limit {
		m := reservations.PerSecond("tokens", 10)
		m.Headroom = 4
		return reservations.Limit{Name: "fleet", Meters: []reservations.Meter{m}, OrdinaryShare: .5}
	}
	for headroom, want := range map[float64]string{4: "", 2: "less than what comes back in 250ms", 6: "more than half"} {
		l := urgentLimit()
		l.Meters[0].Headroom = headroom
		if text := strings.Join(config.Warnings(l), ""); want == "" != (text == "") || !strings.Contains(text, want) {
			t.Errorf("headroom %v: %q", headroom, text)
		}
	}
	l := urgentLimit()
	l.Meters[0] = reservations.PerMinute("tokens", 200_000)
	l.Meters[0].Headroom = 100
	if text := strings.Join(config.Warnings(l), ""); !strings.Contains(text, "(100 of 833.34)") {
		t.Error(text)
	}
	l = urgentLimit()
	l.Meters[0].Headroom = 0
	if w := config.Warnings(l); len(w) != 1 || !strings.Contains(w[0], "ordinary_share has no effect") {
		t.Errorf("%q", w)
	}
}
