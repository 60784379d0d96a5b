package reservations_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
)

func perMinute(limit, meter string, rate float64) reservations.Override {
	return reservations.Override{Limit: limit, Meter: meter, Rate: rate, Period: time.Minute}
}

// rateOf is the rate and the capacity in force.
func rateOf(t *testing.T, l *reservations.Limiter, limit, key, meter string) [2]float64 {
	t.Helper()
	got, err := inside.Of(l).Limits().For(limit, key)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range got.Meters {
		if m.Name == meter {
			return [2]float64{m.Rules().RatePerSecond() * 60, m.Cap()}
		}
	}
	t.Fatalf("limit %q has no meter %q", limit, meter)
	return [2]float64{}
}

// A key's own override counts before that of the limit, and that before what is configured, meter by meter.
func TestOverridesAreResolvedByKey(t *testing.T) {
	t.Parallel()
	limit := openai()
	limit.Meters[1].Capacity = 200
	l := setupLimiter(t, limit, steady())
	keyed := perMinute("openai", "requests", 6)
	keyed.Key = "acme"
	tokens := perMinute("openai", "tokens", 5000)
	burst := perMinute("steady", "tokens", 60)
	burst.Capacity = 3
	if err := inside.Of(l).SetOverrides([]reservations.Override{
		perMinute("openai", "requests", 1), keyed, tokens,
		perMinute("openai", "requests", 30), burst,
	}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		limit, key, meter string
		want              [2]float64
	}{
		{"openai", "", "requests", [2]float64{30, 30}}, // the later of two, and its own burst
		{"openai", "other", "requests", [2]float64{30, 30}},
		{"openai", "acme", "requests", [2]float64{6, 6}},
		{"openai", "acme", "tokens", [2]float64{5000, 200}}, // the configured burst stays
		{"steady", "", "tokens", [2]float64{60, 3}},
	} {
		if got := rateOf(t, l.Limiter, c.limit, c.key, c.meter); got != c.want {
			t.Errorf("%s of %q: %v, want %v", c.meter, c.key, got, c.want)
		}
	}
	if _, err := inside.Of(l).Limits().For("openai:acme", ""); !errors.Is(err, reservations.ErrUnknownLimit) {
		t.Errorf("the name of a bucket is that of a limit: %v", err)
	}
	if n := len(inside.Of(l).Limits().Overrides()); n != 4 {
		t.Errorf("%d overrides in force", n)
	}
	if err := inside.Of(l).SetOverrides(nil); err != nil || rateOf(t, l.Limiter, "openai", "acme",
		"requests") != [2]float64{60, 60} {
		t.Errorf("not taken back: %v", err)
	}
}

// What can't be overridden is named; all else is in force.
func TestOverridesThatCannotBe(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		override reservations.Override
		want     error
		text     string
	}{
		"long key": {
			reservations.Override{
				Limit: "openai", Key: strings.Repeat("k", 513), Meter: "requests", Rate: 5,
				Period: time.Second,
			},
			reservations.ErrInvalidLimit, "must be at most 512",
		},
		"limit": {
			perMinute("opanai", "requests", 5), reservations.ErrUnknownLimit,
			`"opanai" is not configured; there are "openai", "steady"`,
		},
		"meter": {
			perMinute("openai", "images", 5), reservations.ErrUnknownMeter,
			`no meter "images"; there are "requests", "tokens"`,
		},
		"rate":    {perMinute("openai", "requests", -5), reservations.ErrInvalidLimit, "requests.rate: -5"},
		"no rate": {perMinute("openai", "requests", 0), reservations.ErrInvalidLimit, "requests.rate: 0"},
		"period": {
			reservations.Override{Limit: "openai", Meter: "requests", Rate: 5},
			reservations.ErrInvalidLimit,
			"requests.period: 0s",
		},
		"key": {
			reservations.Override{Limit: "openai", Key: "\xff", Meter: "requests", Rate: 5, Period: time.Second},
			reservations.ErrInvalidLimit, `key: key "\xff" must be valid UTF-8`,
		},
		"capacity": {
			reservations.Override{Limit: "openai", Meter: "requests", Rate: 5, Period: time.Second, Capacity: -1},
			reservations.ErrInvalidLimit, "requests.capacity: -1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := setupLimiter(t, openai(), steady())
			err := inside.Of(l).SetOverrides([]reservations.Override{c.override, perMinute("steady", "tokens", 60)})
			fault := (*reservations.ChargeError)(nil)
			if !errors.Is(err, c.want) || !errors.As(err, &fault) || fault.Charge.Limit != c.override.Limit ||
				fault.Charge.Key != c.override.Key || fault.Meter != c.override.Meter ||
				!strings.Contains(err.Error(), c.text) || !strings.Contains(err.Error(), "`headway limits unset ") {
				t.Errorf("error is %v", err)
			}
			if got := rateOf(t, l.Limiter, "steady", "", "tokens"); got[0] != 60 {
				t.Errorf("the good one is not in force: %v", got)
			}
			if diff := cmp.Diff([]reservations.Override{perMinute("steady", "tokens", 60)},
				inside.Of(l).Limits().Overrides()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A charge that waits is served although an override has made the burst smaller than the charge, and never above the
// new rate.
func TestOverrideNeverRefusesATask(t *testing.T) {
	t.Parallel()
	limit := steady() // 10 a second, a burst of 10
	limit.Meters[0].MaxReserved = 5
	l := setupLimiter(t, limit)
	smaller := reservations.Override{Limit: "steady", Meter: "tokens", Rate: 1, Period: time.Second}
	if err := inside.Of(l).SetOverrides([]reservations.Override{smaller}); err != nil {
		t.Fatal(err)
	}
	c := chargeOf("steady", 15) // the most that is served as configured
	if err := l.Validate(c); err != nil {
		t.Fatal(err)
	}
	is, err := inside.Of(l).Limits().For("steady", "")
	if err != nil || is.Meters[0].Cap() != 1 || is.Meters[0].Rules().Largest() != 15 {
		t.Errorf("%+v, %v: stores must never see a charge above the largest of its limit", is, err)
	}
	if _, err = l.Ask(t.Context(), chargeOf("steady", 1)); err != nil {
		t.Fatal(err)
	}
	o, err := l.Ask(t.Context(), c)
	if err != nil || o.State != waiting && o.State != reserved {
		t.Fatalf("%+v, %v", o, err)
	}
	l.now = l.now.Add(o.Wait())
	if o, err = l.Ask(t.Context(), o.Charge); err != nil || !o.Started() {
		t.Fatalf("%+v, %v", o, err)
	}
	if owed := -l.left("steady", "")["tokens"]; owed != 14 {
		t.Errorf("%v tokens are owed: the next one has to wait until the large one is paid back", owed)
	}
	larger := reservations.Override{Limit: "steady", Meter: "tokens", Rate: 100, Period: time.Second}
	if err := inside.Of(l).SetOverrides([]reservations.Override{larger}); err != nil {
		t.Fatal(err)
	}
	if err := l.Validate(chargeOf("steady", 16)); !errors.Is(err, reservations.ErrChargeTooLarge) {
		t.Errorf("%v: what would be refused without the override must not be accepted with it", err)
	}
}

func TestSetLimits(t *testing.T) {
	t.Parallel()
	l := setupLimiter(t, openai(), steady())
	if err := inside.Of(l).SetOverrides([]reservations.Override{perMinute("steady", "tokens", 60), perMinute("later",
		"tokens", 7)}); !errors.Is(err, reservations.ErrUnknownLimit) {
		t.Fatal(err)
	}
	before := inside.Of(l).Limits()
	sharded, bad := openai(), steady()
	sharded.Shards, bad.Meters[0].Rate = 4, -1
	err := l.SetLimits([]reservations.Limit{sharded, bad})
	for _, want := range []string{`limit "openai": shards: can't change from 1 to 4`, `limit "steady": tokens.rate`} {
		if !errors.Is(err, reservations.ErrInvalidLimit) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
	if inside.Of(l).Limits() != before {
		t.Error("refused limits have changed something")
	}
	faster, later := steady(), steady()
	faster.Meters[0].Rate, later.Name = 50, "later"
	if err := l.SetLimits([]reservations.Limit{faster, later}); err != nil {
		t.Fatal(err)
	}
	if got := rateOf(t, l.Limiter, "later", "", "tokens"); got[0] != 7 {
		t.Errorf("%v: the override of a limit that came later is not in force", got)
	}
	if got := rateOf(t, l.Limiter, "steady", "", "tokens"); got[0] != 60 {
		t.Errorf("%v: the override is lost", got)
	}
	if configured, _ := inside.Of(l).Limits().Configured("steady"); configured.Meters[0].Rate != 50 {
		t.Errorf("configured: %+v", configured)
	}
	if _, err := l.Ask(t.Context(), chargeOf("openai", 1)); !errors.Is(err, reservations.ErrUnknownLimit) {
		t.Errorf("%v: the limit is gone", err)
	}
}

// Limits that change while others ask are always whole: a request has the meters of its limit.
func TestLimitsChangeWhileOthersAsk(t *testing.T) {
	t.Parallel()
	two, one := openai(), openai()
	one.Meters = one.Meters[1:]
	one.Meters[0].Capacity = 1e9
	two.Meters = []reservations.Meter{reservations.InFlight(bucket.InFlightMost), one.Meters[0]}
	l, err := reservations.New(memstore.New(), []reservations.Limit{two}, reservations.Config{})
	if err != nil {
		t.Fatal(err)
	}
	const rounds = 300
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range rounds {
				o, err := l.Ask(t.Context(), chargeOf("openai", 3))
				if err == nil && o.Started() {
					_, err = l.Settle(t.Context(), o.Charge, reservations.Tokens{"tokens": 2}, "")
				}
				if err != nil || !o.Started() {
					t.Errorf("%+v, %v", o, err)
					return
				}
			}
		})
	}
	wg.Go(func() {
		for i := range rounds {
			set := [][]reservations.Limit{{two}, {one}}[i%2]
			if err := l.SetLimits(set); err != nil {
				t.Error(err)
			}
			o := perMinute("openai", "tokens", float64(i+1))
			o.Capacity = 1e9
			if err := inside.Of(l).SetOverrides([]reservations.Override{o}); err != nil {
				t.Error(err)
			}
		}
	})
	wg.Wait()
}
