package reservations_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
)

func perMinute(limit, meter string, rate float64) reservations.Override {
	return reservations.Override{Limit: limit, Meter: meter, Rate: rate, Period: time.Minute}
}

// rateOf is the rate and the capacity in force.
func rateOf(t *testing.T, l *reservations.Limiter, limit, key, meter string) [2]float64 {
	t.Helper()
	got, err := l.Limits().For(limit, key)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range got.Meters {
		if m.Name == meter {
			return [2]float64{m.RatePerSecond() * 60, m.Cap()}
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
	if err := l.SetOverrides([]reservations.Override{perMinute("openai", "requests", 1), keyed, tokens, perMinute("openai", "requests", 30), burst}); err != nil {
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
	if n := len(l.Limits().Overrides()); n != 4 {
		t.Errorf("%d overrides in force", n)
	}
	if err := l.SetOverrides(nil); err != nil || rateOf(t, l.Limiter, "openai", "acme", "requests") != [2]float64{60, 60} {
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
		"limit":    {perMinute("opanai", "requests", 5), reservations.ErrUnknownLimit, `"opanai" is not configured; there are ["openai" "steady"]`},
		"meter":    {perMinute("openai", "images", 5), reservations.ErrUnknownMeter, `no meter "images"; it has ["requests" "tokens"]`},
		"rate":     {perMinute("openai", "requests", -5), reservations.ErrInvalidLimit, "requests.rate: -5"},
		"no rate":  {perMinute("openai", "requests", 0), reservations.ErrInvalidLimit, "requests.rate: 0"},
		"period":   {reservations.Override{Limit: "openai", Meter: "requests", Rate: 5}, reservations.ErrInvalidLimit, "requests.period: 0s"},
		"key":      {reservations.Override{Limit: "openai", Key: "\xff", Meter: "requests", Rate: 5, Period: time.Second}, reservations.ErrInvalidLimit, `key: "\xff" is not valid UTF-8`},
		"capacity": {reservations.Override{Limit: "openai", Meter: "requests", Rate: 5, Period: time.Second, Capacity: -1}, reservations.ErrInvalidLimit, "requests.capacity: -1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := setupLimiter(t, openai(), steady())
			err := l.SetOverrides([]reservations.Override{c.override, perMinute("steady", "tokens", 60)})
			fault := (*reservations.OverrideError)(nil)
			if !errors.Is(err, c.want) || !errors.As(err, &fault) || fault.Override != c.override || !strings.Contains(err.Error(), c.text) {
				t.Errorf("error is %v", err)
			}
			if got := rateOf(t, l.Limiter, "steady", "", "tokens"); got[0] != 60 {
				t.Errorf("the good one is not in force: %v", got)
			}
			if diff := cmp.Diff([]reservations.Override{perMinute("steady", "tokens", 60)}, l.Limits().Overrides()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A charge that waits is served although an override has made the burst smaller than the charge, and never above the new rate.
func TestOverrideNeverRefusesATask(t *testing.T) {
	t.Parallel()
	limit := steady() // 10 a second, a burst of 10
	limit.Meters[0].MaxReserved = 5
	l := setupLimiter(t, limit)
	smaller := reservations.Override{Limit: "steady", Meter: "tokens", Rate: 1, Period: time.Second}
	if err := l.SetOverrides([]reservations.Override{smaller}); err != nil {
		t.Fatal(err)
	}
	c := chargeOf("steady", 15) // the most that is served as configured
	if err := l.Validate(c); err != nil {
		t.Fatal(err)
	}
	if is, err := l.Limit("steady"); err != nil || is.Meters[0].Cap() != 1 || is.Meters[0].Largest() != 15 {
		t.Errorf("%+v, %v: stores must never see a charge above the largest of its limit", is, err)
	}
	if _, err := l.Begin(t.Context(), chargeOf("steady", 1), reservations.Place{}); err != nil {
		t.Fatal(err)
	}
	var o reservations.Outcome
	for n := 0; !o.Started(); n++ {
		var err error
		if o, err = l.Begin(t.Context(), c, o.Place()); err != nil || n == 5 {
			t.Fatalf("delivery %d: %+v, %v", n, o, err)
		}
		l.now = l.now.Add(o.Wait())
	}
	if owed := -l.use("steady", "")["tokens"]; owed < 13 || owed > 14.5 {
		t.Errorf("%v tokens are owed: the next one has to wait until the large one is paid back", owed)
	}
	larger := reservations.Override{Limit: "steady", Meter: "tokens", Rate: 100, Period: time.Second}
	if err := l.SetOverrides([]reservations.Override{larger}); err != nil {
		t.Fatal(err)
	}
	if err := l.Validate(chargeOf("steady", 16)); !errors.Is(err, reservations.ErrChargeTooLarge) {
		t.Errorf("%v: what would be refused without the override must not be accepted with it", err)
	}
}

// A large charge below an override of a smaller burst is served in its turn, although others keep coming.
func TestOverrideLetsNoTaskStarve(t *testing.T) {
	t.Parallel()
	limit := steady() // 10 a second
	limit.Meters[0].Capacity, limit.Meters[0].MaxReserved = 30, 5
	l := setupLimiter(t, limit)
	smaller := reservations.Override{Limit: "steady", Meter: "tokens", Rate: 1, Period: time.Second, Capacity: 2}
	if err := l.SetOverrides([]reservations.Override{smaller}); err != nil {
		t.Fatal(err)
	}
	begin := func(tokens float64, p reservations.Place) reservations.Outcome {
		o, err := l.Begin(t.Context(), chargeOf("steady", tokens), p)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	var small []reservations.Place
	var large reservations.Place
	deliveries := 0
	const began = 60 // half seconds until the large one comes
	for half := 0; ; half++ {
		if half%3 > 0 { // more than there is room for
			small = append(small, reservations.Place{})
		}
		var still []reservations.Place
		for _, p := range small {
			if p.Due.After(l.now) {
				still = append(still, p)
			} else if o := begin(1, p); !o.Started() {
				still = append(still, o.Place())
			}
		}
		small = still
		if half >= began && !large.Due.After(l.now) {
			o := begin(35, large) // the most that is served as configured
			if large = o.Place(); o.Started() {
				return
			}
			deliveries++
		}
		if l.now = l.now.Add(time.Second / 2); deliveries > 4 {
			t.Fatalf("after %d deliveries in %d s: %+v", deliveries, (half-began)/2, large)
		}
	}
}

func TestSetLimits(t *testing.T) {
	t.Parallel()
	l := setupLimiter(t, openai(), steady())
	if err := l.SetOverrides([]reservations.Override{perMinute("steady", "tokens", 60), perMinute("later", "tokens", 7)}); !errors.Is(err, reservations.ErrUnknownLimit) {
		t.Fatal(err)
	}
	before := l.Limits()
	sharded, bad := openai(), steady()
	sharded.Shards, bad.Meters[0].Rate = 4, -1
	err := l.SetLimits([]reservations.Limit{sharded, bad})
	for _, want := range []string{`limit "openai": shards: can't change from 1 to 4`, `limit "steady": tokens.rate`} {
		if !errors.Is(err, reservations.ErrInvalidLimit) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
	if l.Limits() != before {
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
	if configured, _ := l.Limits().Configured("steady"); configured.Meters[0].Rate != 50 {
		t.Errorf("configured: %+v", configured)
	}
	if _, err := l.Begin(t.Context(), chargeOf("openai", 1), reservations.Place{}); !errors.Is(err, reservations.ErrUnknownLimit) {
		t.Errorf("%v: the limit is gone", err)
	}
}

func TestRevisionNamesWhatCounts(t *testing.T) {
	t.Parallel()
	l := setupLimiter(t, openai(), steady())
	plain := l.Limits()
	set := func(o ...reservations.Override) *reservations.LimitSet {
		_ = l.SetOverrides(o)
		return l.Limits()
	}
	a, b := perMinute("openai", "requests", 5), perMinute("steady", "tokens", 60)
	signed := a
	signed.By, signed.SetAt = "somebody", time.Now()
	one := set(a, b)
	if one.Revision() == plain.Revision() || one.Revision() != set(b, signed).Revision() || one.Revision() != set(a, b, perMinute("none", "x", 1)).Revision() {
		t.Error("the revision has to name the overrides in force, and nothing else")
	}
	other := openai()
	other.MaxWait = time.Minute
	same := setupLimiter(t, steady(), openai()).Limits()
	if same.Revision() != plain.Revision() || setupLimiter(t, other, steady()).Limits().Revision() == plain.Revision() {
		t.Error("the revision has to name what is configured")
	}
	if keyed := set(reservations.Override{Limit: "openai", Key: "k", Meter: "requests", Rate: 1, Period: time.Second}); keyed.SameFor(plain, "openai", "k") ||
		!keyed.SameFor(plain, "openai", "") || !keyed.SameFor(plain, "none", "") || one.SameFor(plain, "openai", "k") {
		t.Error("SameFor has to tell which buckets have another limit")
	}
}

// Requests that gathered by one limit are not asked for by another.
func TestCombineSplitsWhereTheLimitChanged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setupCombine(t)
		b.ask(t.Context(), "", 10, b.waits(0))
		b.ask(t.Context(), "", 5, b.waits(500*time.Millisecond))
		if err := b.SetOverrides([]reservations.Override{{Limit: "steady", Meter: "tokens", Rate: 5, Period: time.Second, Capacity: 10}}); err != nil {
			t.Fatal(err)
		}
		b.ask(t.Context(), "", 6, b.waits(2200*time.Millisecond)) // 11 owed, 5 a second
		b.ask(t.Context(), "", 4, b.waits(3*time.Second))
		b.open(3)
		b.wantCalls([]float64{10}, []float64{5}, []float64{6, 4})
	})
}

// Limits that change while others ask are always whole: the meters of a request are those of its limit.
func TestLimitsChangeWhileOthersAsk(t *testing.T) {
	t.Parallel()
	two, one := openai(), openai()
	one.Meters = one.Meters[1:]
	two.Meters[0].Capacity, two.Meters[1].Capacity = 1e9, 1e9
	one.Meters[0].Capacity = 1e9
	l, err := reservations.New(memstore.New(nil), []reservations.Limit{two}, reservations.Config{})
	if err != nil {
		t.Fatal(err)
	}
	const rounds = 300
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range rounds {
				o, err := l.Begin(t.Context(), chargeOf("openai", 3), reservations.Place{})
				if err == nil && o.Started() {
					_, err = l.Settle(t.Context(), chargeOf("openai", 3), reservations.Tokens{"tokens": 2}, "")
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
			if err := l.SetOverrides([]reservations.Override{o}); err != nil {
				t.Error(err)
			}
		}
	})
	wg.Wait()
}
