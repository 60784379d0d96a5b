package reservations_test

import (
	"errors"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
)

// A pure queue starts one task after another, each when the tokens of the previous task have come back. No quiet time
// saves up for a burst.
func TestNoBurstStartsOneAfterAnother(t *testing.T) {
	t.Parallel()
	l := limitOf(perSecond("tokens", 10, reservations.None, inf))
	if err := l.Validate(); err != nil {
		t.Fatal(err)
	}
	b, at := bucket.Bucket{}, 1000.
	for k, n := range []float64{1, 20, 5} {
		var o bucket.Answer
		if b, o = bucket.Step(b, bucket.Rules(l), clock(at), promoted(n)); !o.Started() || o.Hold != 0 {
			t.Fatalf("task %d: %+v, want a start at once", k, o)
		}
		comes := clock(at + n/10)
		if b, o = bucket.Step(b, bucket.Rules(l), clock(at), start(1)); k > 0 && !o.RetryAt.Equal(comes) {
			t.Errorf("after task %d a new one starts at %v, want %v", k, o.RetryAt, comes)
		}
		if k == 0 { // short by 100 ms: it holds
			if !o.Started() || o.Hold != 100*time.Millisecond {
				t.Errorf("a task short by 100 ms: %+v, want a hold", o)
			}
			at += .1
		} else {
			b = step(b, l, at, release(1))
		}
		at += n / 10
	}
	now := clock(at + 1000)
	starts := b.Plan(now, []bucket.Ask{
		{Tokens: reservations.Tokens{"tokens": 3}}, {Tokens: reservations.Tokens{"tokens": 3}},
	}, clock(at+2000))
	if d := starts[1].Sub(starts[0]); !starts[0].Equal(now) || d != 300*time.Millisecond {
		t.Errorf("planned at %v and %v later, want at %v and 300ms later", starts[0], d, now)
	}
}

// An override may make a meter a pure queue, and set the calls in flight. Neither refuses a task that the configured
// limit serves.
func TestOverrideOfCapacities(t *testing.T) {
	t.Parallel()
	limit := limitOf(perSecond("tokens", 10, 30, 0), reservations.InFlight(20))
	l, err := reservations.New(memstore.New(), []reservations.Limit{limit}, reservations.Config{})
	if err != nil {
		t.Fatal(err)
	}
	queue := reservations.Override{
		Limit: "fleet", Meter: "tokens", Rate: 5, Period: time.Second, Capacity: reservations.None,
	}
	calls := reservations.Override{Limit: "fleet", Meter: reservations.MeterInFlight, Capacity: 2}
	if err = inside.Of(l).SetOverrides([]reservations.Override{queue, calls}); err != nil {
		t.Fatal(err)
	}
	charge := reservations.Charge{Limit: "fleet", Tokens: reservations.Tokens{"tokens": 30}}
	o, err := l.Ask(t.Context(), charge)
	if err != nil || !o.Started() {
		t.Fatalf("%+v (%v), want a start", o, err)
	}
	v, err := l.View(t.Context(), "fleet", "")
	if err != nil || v.Meters[0].Cap() != 0 || v.Meters[0].Level > -29 || v.Meters[1].Level != 1 {
		t.Errorf("viewed %+v (%v), want 30 owed, and one call of two free", v.Meters, err)
	}
	for _, o := range []reservations.Override{
		{Limit: "fleet", Meter: reservations.MeterInFlight},
		{Limit: "fleet", Meter: reservations.MeterInFlight, Capacity: 2.5},
		{Limit: "fleet", Meter: reservations.MeterInFlight, Capacity: -1},
		{Limit: "fleet", Meter: reservations.MeterInFlight, Capacity: 1001},
		{Limit: "fleet", Meter: reservations.MeterInFlight, Capacity: 5, Rate: 5, Period: time.Second},
	} {
		var f *reservations.FieldError
		err = inside.Of(l).SetOverrides([]reservations.Override{o})
		if !errors.As(err, &f) || f.Field != reservations.MeterInFlight {
			t.Errorf("%+v: got %v, want a fault of in_flight", o, err)
		}
	}
}

// Fewer calls in flight than run: no call starts until enough have ended. More: at once.
func TestOverrideOfCallsThatRun(t *testing.T) {
	t.Parallel()
	limit := limitOf(reservations.InFlight(3))
	l, err := reservations.New(memstore.New(), []reservations.Limit{limit}, reservations.Config{})
	if err != nil {
		t.Fatal(err)
	}
	set := func(n float64) {
		t.Helper()
		o := reservations.Override{Limit: "fleet", Meter: reservations.MeterInFlight, Capacity: n}
		if err := inside.Of(l).SetOverrides([]reservations.Override{o}); err != nil {
			t.Fatal(err)
		}
	}
	c := reservations.Charge{Limit: "fleet"}
	allow := func(want bool) *reservations.Grant {
		t.Helper()
		g, err := l.Allow(t.Context(), c)
		if err != nil || g.Started() != want {
			t.Fatalf("%+v (%v), want a start: %v", g, err, want)
		}
		return g
	}
	running := []*reservations.Grant{allow(true), allow(true), allow(true)}
	end := func(k int) {
		t.Helper()
		if err := running[k].Settle(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	set(2)
	allow(false)
	end(0)
	allow(false)
	end(1)
	allow(true)
	allow(false)
	set(4)
	allow(true)
	allow(true)
	allow(false)
}
