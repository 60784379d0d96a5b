package config_test

import (
	"math"
	"math/big"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/setup/config"
	"github.com/headway-go/headway/reservations"
)

// rateShape and periodPart are the grammar of a rate, as docs/limits.md has it.
var (
	rateShape  = regexp.MustCompile(`^([^/]*)/(?:(s|sec|second|m|min|minute|h|hour|d|day)|([+-]?)([0-9a-zµμ.]+))$`)
	periodPart = regexp.MustCompile(`^(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)`)
)

// periodUnits are the units of a period, in nanoseconds.
func periodUnits() map[string]int64 {
	return map[string]int64{
		"ns": 1, "us": 1e3, "µs": 1e3, "μs": 1e3, "ms": 1e6, "s": 1e9, "sec": 1e9, "second": 1e9, "m": 60e9, "min": 60e9,
		"minute": 60e9, "h": 3600e9, "hour": 3600e9, "d": 86400e9, "day": 86400e9,
	}
}

// exactPeriod returns the sum of the parts of a duration, in nanoseconds.
func exactPeriod(text string) (*big.Rat, bool) {
	sum, one := new(big.Rat), new(big.Rat)
	if days, rest, ok := strings.Cut(text, "d"); ok { // they come first
		if _, ok = sum.SetString("0" + days + "0"[:strings.Count(days, ".")]); !ok {
			return nil, false
		}
		sum.Mul(sum, new(big.Rat).SetInt64(periodUnits()["d"]))
		text = rest
	}
	for text != "" && text != "0" {
		part := periodPart.FindStringSubmatch(text)
		if part == nil {
			return nil, false
		}
		if _, ok := one.SetString("0" + part[1] + "0"[:strings.Count(part[1], ".")]); !ok {
			return nil, false
		}
		sum.Add(sum, one.Mul(one, new(big.Rat).SetInt64(periodUnits()[part[2]])))
		text = text[len(part[0]):]
	}
	return sum, true
}

// Exact arithmetic reads the same number and period from an accepted rate, and the text of the rate is parsed again.
func FuzzParseRate(f *testing.F) {
	for _, text := range []string{
		"500/m", "10/s", "1_000 / 10s", "10000/day", "5/1h30m", "0.5/sec", "1e3/h", ".5/1.5s", "-1/m", "NaN/m", "inf/s",
		"0x1p4/m", "1/-5s", "1/0s", "1e400/m", "1/9999999h", "/m", "1/", "1//m", "1/d/d", "1/+5s", "_/m", "1/5.s",
		"1/2d", "1/1d2h", "1/-.5d",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		tokens, period, err := config.ParseRate(text)
		if err != nil {
			if len(err.Error()) > 4*len(text)+200 {
				t.Errorf("%q: %.300v", text, err)
			}
			return
		}
		parts := rateShape.FindStringSubmatch(strings.Join(strings.FieldsFunc(text, unicode.IsSpace), ""))
		if parts == nil {
			t.Fatalf("%q is accepted as %v per %v, and is no rate", text, tokens, period)
		}
		number := strings.NewReplacer("_", "", " ", "").Replace(parts[1])
		want, isNumber := new(big.Float).SetPrec(2000).SetString(number)
		if got := new(big.Float); !isNumber || math.IsNaN(tokens) {
			if !math.IsNaN(tokens) && !math.IsInf(tokens, 0) {
				t.Errorf("%q has %v tokens, and exact arithmetic reads no number", text, tokens)
			}
		} else if rounded, _ := want.Float64(); rounded != tokens {
			t.Errorf("%q has %v tokens, want %v", text, got.SetFloat64(tokens), want)
		}
		exact, ok := new(big.Rat).SetInt64(periodUnits()[parts[2]]), true
		if parts[2] == "" {
			exact, ok = exactPeriod(parts[4])
		}
		if parts[3] == "-" && ok {
			exact.Neg(exact)
		}
		off := new(big.Rat).SetInt64(int64(period))
		if !ok || off.Sub(off, exact).Abs(off).Cmp(big.NewRat(64, 1)) > 0 { // each part loses a fraction of a nanosecond
			t.Errorf("%q has the period %v, want %v ns", text, period, exact)
		}
		m := reservations.Meter{Name: "m", Rate: tokens, Period: period}
		if (reservations.Limit{Name: "a", Meters: []reservations.Meter{m}}).Validate() != nil {
			return
		}
		written := bucket.RateText(tokens, period)
		if again, same, err := config.ParseRate(written); err != nil || again != tokens || same != period {
			t.Errorf("%q is written as %q, which is %v per %v, %v", text, written, again, same, err)
		}
		if period < time.Nanosecond || tokens <= 0 {
			t.Errorf("%q is a valid rate of %v per %v", text, tokens, period)
		}
	})
}
