package reservations_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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
		name    string
		maxWait time.Duration
		meters  []reservations.Meter
		want    []string // part of each
	}{
		{"unlimited", 0, []reservations.Meter{reservations.PerMinute("a", 1), reservations.PerDay("b", 1)}, nil},
		{"one bounded", time.Minute, []reservations.Meter{reservations.PerMinute("a", 1), bounded("b", 60, 10)}, nil},
		{"ten times", 0, []reservations.Meter{bounded("a", 60, 100), bounded("b", 600, 100)}, nil},
		{"more", 0, []reservations.Meter{bounded("a", 60, 101), bounded("b", 600, 100)}, []string{"of b is 10s ahead, that of a 1m41s"}},
		{"one has none", 0, []reservations.Meter{bounded("a", 60, 1), bounded("b", 600, 0)}, []string{"of b is 0s ahead"}},
		{"a day and a minute", time.Minute, []reservations.Meter{reservations.PerDay("b", 1)}, []string{"window of b lasts 24h0m0s, longer than max_wait (1m0s)"}},
	} {
		got := reservations.Limit{Name: "api", Meters: c.meters, MaxWait: c.maxWait}.Warnings()
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

func TestLimitValidatesModesAndMaxWait(t *testing.T) {
	t.Parallel()
	l := reservations.Limit{Name: "api", MaxWait: -1, Settle: "?", Meters: []reservations.Meter{reservations.PerMinute("a", 1)}}
	l.Meters[0].Settle = "sometimes"
	if diff := cmp.Diff([]string{"settle", "max_wait", "a.settle"}, faultyFields(l.Validate())); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
	l.MaxWait, l.Settle, l.Meters[0].Settle = time.Nanosecond, reservations.SettleKeep, reservations.SettleAdjust
	if err := l.Validate(); err != nil {
		t.Error(err)
	}
}
