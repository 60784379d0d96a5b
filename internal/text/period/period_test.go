package period_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/text/period"
)

func TestParse(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"1d": day, "7d": 7 * day, "1d12h": 36 * time.Hour, "0.5d": 12 * time.Hour, "-1d2h": -26 * time.Hour, "+1d": day,
		"1d0h1ms": day + time.Millisecond, "90m": 90 * time.Minute, "0": 0, ".5d": 12 * time.Hour, "106751d": 106751 * day,
	} {
		if got, err := period.Parse(text); err != nil || got != want {
			t.Errorf("%q: got %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "d", "1", "1d1", "1d-1h", "1h1d", "1D", "1 d", "1day", "106752d", "106751d24h", "1e400d", "1w",
		"soon", "30 s",
	} {
		if got, err := period.Parse(text); err == nil || !strings.Contains(err.Error(), "e.g. 90s, 1h30m or 1d") {
			t.Errorf("%q: got %v, %v", text, got, err)
		}
	}
	var f period.Flag
	if err := f.Set("1d"); err != nil || f.String() != "24h0m0s" || f.Type() != "duration" || f.Set("1day") == nil {
		t.Errorf("%v, %v", f, err)
	}
}

// Days and the rest of a duration add up to what they are.
func FuzzParse(f *testing.F) {
	f.Add(uint16(1), int64(3600e9))
	f.Add(uint16(365), int64(0))
	f.Fuzz(func(t *testing.T, days uint16, nanos int64) {
		rest := time.Duration(max(0, nanos)) % (1000 * time.Hour)
		want := time.Duration(days)*24*time.Hour + rest
		if got, err := period.Parse(strconv.Itoa(int(days)) + "d" + rest.String()); err != nil || got != want {
			t.Errorf("%dd%v: %v, %v", days, rest, got, err)
		}
		if got, err := period.Parse(want.String()); err != nil || got != want {
			t.Errorf("%v: %v, %v", want, got, err)
		}
	})
}
