package reservations_test

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/internal/test/seeded"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
)

// finding is a meter that finds its rate between 1 and 100 a second, in 100 seconds, with a capacity of 10.
func finding(ramp time.Duration) reservations.Meter {
	m := perSecond("tokens", 1, 10, inf)
	m.Adaptive = reservations.Adaptive{Max: 100, Ramp: ramp}
	return m
}

func step(b bucket.Bucket, l reservations.Limit, at float64, r bucket.Request) bucket.Bucket {
	b, _ = bucket.Step(b, bucket.Rules(l), clock(at), r)
	return b
}

func wantRate(t *testing.T, b bucket.Bucket, want float64) {
	t.Helper()
	if got := b.Meters[0].Filling.Rate; math.Abs(got-want) > 1e-6 {
		t.Errorf("rate %v, want %v", got, want)
	}
}

func TestAdaptiveClimbsInUse(t *testing.T) {
	t.Parallel()
	l := limitOf(finding(99 * time.Second)) // climbs by 1 a second
	b := step(bucket.Bucket{}, l, 0, start(4))
	wantRate(t, b, 1)
	b = step(b, l, 10, start(4)) // it was never below half: full after 4 seconds, so it fell
	wantRate(t, b, 1)
	b = step(b, l, 10, promoted(6)) // nothing is left
	b = step(b, l, 13, promoted(0))
	wantRate(t, b, 4) // for 3 seconds
	if got := b.Meters[0].Started; got != 3 {
		t.Errorf("%v tokens came back in 3 seconds, want 3: by the rate before", got)
	}
	b = step(b, l, 14, promoted(0)) // half of the capacity after half a second
	wantRate(t, b, 4.5)
	b = step(b, l, 1000, refresh())
	wantRate(t, b, 1)
}

func TestAdaptiveKeepsItsRateWithoutARamp(t *testing.T) {
	t.Parallel()
	l := limitOf(finding(0))
	b := step(step(bucket.Bucket{}, l, 0, start(150)), l, 150, start(0))
	wantRate(t, b, 100) // at most
	b = step(b, l, 3600, start(0))
	wantRate(t, b, 100)
	if kept := b.KeepUntil().Sub(b.FullAt()); kept != 24*time.Hour {
		t.Errorf("the bucket is kept for %v after it is full, want a day", kept)
	}
}

// Refusals within a second, and in a block, count once.
func TestAdaptiveFallsWhenRefused(t *testing.T) {
	t.Parallel()
	l := limitOf(finding(0))
	b := step(step(bucket.Bucket{}, l, 0, start(150)), l, 150, start(0))
	b = step(b, l, 150, block(.1))
	wantRate(t, b, 70)
	b = step(b, l, 150, block(.5))
	b = step(b, l, 150.9, block(.5))
	wantRate(t, b, 70+5./70*99/120) // it climbed until it was half full
	b = step(step(b, l, 152, unblock()), l, 152, block(10))
	if got := b.Meters[0].Filling.Rate; got > 52 {
		t.Errorf("rate %v after a second refusal, want about 50", got)
	}
	b = step(b, l, 154, block(3)) // inside
	b = step(b, l, 162, block(1))
	b = step(b, l, 164, block(1))
	for at := 166.; at < 250; at += 1.1 {
		b = step(b, l, at, block(1))
	}
	if got := b.Meters[0].Filling.Rate; got < 1 || got > 2 {
		t.Errorf("rate %v after many refusals, want about the lowest", got)
	}
}

func TestAdaptiveFallsWhenLittleIsLeft(t *testing.T) {
	t.Parallel()
	l := limitOf(finding(0))
	b := step(step(bucket.Bucket{}, l, 0, start(150)), l, 150, start(0))
	for _, c := range []struct{ at, left, want float64 }{
		{150, -1, 100}, // not known
		{150, 2, 100},  // a quarter of the capacity is 2.5
		{150, 1, 70},
		{150, 0, 70}, // the same news
	} {
		b = step(b, l, c.at, synced(0, c.left))
		wantRate(t, b, c.want)
	}
}

func TestAdaptiveFollowsItsLimit(t *testing.T) {
	t.Parallel()
	l := limitOf(finding(0))
	b := step(step(bucket.Bucket{}, l, 0, start(150)), l, 150, start(0))
	if !b.Follows(bucket.Rules(l)) {
		t.Error("a bucket that has found a rate does not follow its limit")
	}
	lower := limitOf(finding(0))
	lower.Meters[0].Adaptive.Max = 40
	if b.Follows(bucket.Rules(lower)) {
		t.Error("the bucket follows bounds that it has not")
	}
	wantRate(t, step(b, lower, 150, refresh()), 40)
	fixed := limitOf(perSecond("tokens", 25, 10, inf))
	b = step(b, fixed, 150, refresh())
	wantRate(t, b, 25)
	wantRate(t, step(b, l, 150, refresh()), 25) // the rate in force is where it begins
}

// The dispatcher plans with the JSON form of the bucket's last answer: by the present rate, not by the configured one.
func TestAdaptiveIsPlannedByItsPresentRate(t *testing.T) {
	t.Parallel()
	l := limitOf(finding(0))
	b := step(step(bucket.Bucket{}, l, 0, start(150)), l, 150, start(100))
	text, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	var known bucket.Bucket
	if err := json.Unmarshal(text, &known); err != nil {
		t.Fatal(err)
	}
	asks := []bucket.Ask{{Tokens: reservations.Tokens{"tokens": 5}}, {Tokens: reservations.Tokens{"tokens": 5}}}
	now := clock(150)
	starts := known.Plan(now, asks, now.Add(time.Hour))
	_, o := bucket.Step(b, bucket.Rules(l), now, promoted(5))
	if want := o.RetryAt; !starts[0].Equal(want) || starts[1].Sub(starts[0]) != 50*time.Millisecond {
		t.Errorf("planned at %v, want at %v and 50 ms later", starts, want)
	}
	if v := reservations.ViewOf(b, l, "", now); v.Meters[0].Current != 100 || v.Meters[0].Rate != 1 {
		t.Errorf("viewed at %v from %v on, want 100 and 1", v.Meters[0].Current, v.Meters[0].Rate)
	}
}

func TestAdaptiveIsFixedByAnOverride(t *testing.T) {
	t.Parallel()
	limiter, err := reservations.New(memstore.New(), []reservations.Limit{limitOf(finding(0))}, reservations.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := inside.Of(limiter).SetOverrides([]reservations.Override{perMinute("fleet", "tokens", 600)}); err != nil {
		t.Fatal(err)
	}
	l, _ := inside.Of(limiter).Limits().For("fleet", "")
	if l.Meters[0].Adaptive.Max != 0 || l.Meters[0].Rules().RatePerSecond() != 10 {
		t.Errorf("with an override of 600/m there is %+v", l.Meters[0])
	}
}

func TestAdaptiveFaultsNameTheField(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		field  string
		change func(m *reservations.Meter)
	}{
		{"tokens.adaptive.max", func(m *reservations.Meter) { m.Adaptive.Max = .5 }},
		{"tokens.adaptive.max", func(m *reservations.Meter) { m.Adaptive.Max = 0; m.Adaptive.Ramp = time.Second }},
		{"tokens.adaptive.max", func(m *reservations.Meter) { m.Adaptive.Max = math.Inf(1) }},
		{"tokens.adaptive.max", func(m *reservations.Meter) { m.Adaptive.Max = math.NaN() }},
		{"tokens.adaptive.ramp", func(m *reservations.Meter) { m.Adaptive.Ramp = -1 }},
		{"tokens.adaptive", func(m *reservations.Meter) { m.Kind = reservations.KindWindow }},
		{"in_flight", func(m *reservations.Meter) {
			*m = reservations.InFlight(3)
			m.Adaptive.Max = 4
		}},
	} {
		m := finding(0)
		c.change(&m)
		err := limitOf(m).Validate()
		var f *reservations.FieldError
		if !errors.As(err, &f) || f.Field != c.field {
			t.Errorf("%+v: got %v, want a fault of %s", m, err, c.field)
		}
	}
	if err := limitOf(finding(time.Minute)).Validate(); err != nil {
		t.Error(err)
	}
}

// Whatever is asked: the rate stays within its bounds, and in any window no more starts than the capacity and what the
// rates in force brought.
func TestAdaptiveHoldsItsBounds(t *testing.T) {
	t.Parallel()
	seeded.Check(t, func(t *rapid.T) {
		m := perSecond("tokens", rapid.SampledFrom([]float64{.1, 1, 20}).Draw(t, "least"), 0, inf)
		m.Capacity = m.Rate * rapid.SampledFrom([]float64{.5, 1, 60}).Draw(t, "capacity")
		m.Adaptive.Max = m.Rate * rapid.SampledFrom([]float64{1, 2, 50}).Draw(t, "max")
		m.Adaptive.Ramp = rapid.SampledFrom([]time.Duration{0, time.Second, time.Minute}).Draw(t, "ramp")
		l, b, at := limitOf(m), bucket.Bucket{}, 0.
		type started struct{ brought, sum float64 }
		brought, sum := 0., 0.
		before := []started{{}}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			wait := rapid.SampledFrom([]float64{0, .01, .3, 2, 30, 900}).Draw(t, "wait")
			rate := m.Rate
			if len(b.Meters) > 0 {
				rate = b.Meters[0].Filling.Rate
			}
			var o bucket.Answer
			at += wait
			brought += rate * wait
			n := m.Capacity * rapid.SampledFrom([]float64{.01, .3, 1}).Draw(t, "tokens")
			r := rapid.SampledFrom([]bucket.Request{
				start(n), start(n), promoted(n), promoted(n), promoted(n), allow(n), block(.05), block(5), unblock(),
				refresh(), synced(1, n/3), synced(0, 0), reserve(n),
			}).Draw(t, "request")
			b, o = bucket.Step(b, bucket.Rules(l), clock(at), r)
			if now := b.Meters[0].Filling.Rate; now < m.Rate || now > m.Adaptive.Max {
				t.Fatalf("rate %v, want from %v to %v", now, m.Rate, m.Adaptive.Max)
			}
			if !o.Started() {
				continue
			}
			sum += n
			most := m.Capacity + b.Meters[0].Filling.Rate*o.Hold.Seconds()
			for _, p := range before {
				if got, want := sum-p.sum, most+brought-p.brought; got > want*(1+1e-9)+1e-5 {
					t.Fatalf("%v tokens started, and at most %v came", got, want)
				}
			}
			before = append(before, started{brought, sum})
		}
	})
}

func TestAdaptiveShardsShareTheBounds(t *testing.T) {
	t.Parallel()
	l := limitOf(finding(0))
	l.Shards = 4
	limiter, err := reservations.New(memstore.New(), []reservations.Limit{l}, reservations.Config{})
	if err != nil {
		t.Fatal(err)
	}
	v, err := limiter.View(t.Context(), "fleet", "")
	if err != nil || v.Meters[0].Current != 1 || v.Shards[0].Meters[0].Adaptive.Max != 25 {
		t.Errorf("viewed %+v (%v), want a rate of 1 in all, and at most 25 in each shard", v, err)
	}
	if text := l.Validate(); text != nil && strings.Contains(text.Error(), "adaptive") {
		t.Error(text)
	}
}
