package reservations_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/headway-go/headway/reservations"
)

// What a block of 2 s does to the ledgers use, late, plan, again, line of 10 tokens a second, and to what is there of a block.
func TestStepBlockLedgers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		length  time.Duration
		blocked float64
		before  []float64
		after   []float64
		shift   float64
		left    float64
	}{
		{"a full bucket is empty when it ends", 2 * time.Second, 0, []float64{10, 10, 10, 10, 10}, []float64{-20, -20, -20, -20, -20}, -2, 2},
		{"who waits is set back", 2 * time.Second, 0, []float64{5, 5, -15, -15, -30}, []float64{-20, -20, -35, -35, -50}, -2, 2},
		{"a debt that is deeper stays", 2 * time.Second, 0, []float64{-40, -40, -40, -40, -40}, []float64{-40, -60, -60, -60, -60}, -2, 2},
		{"inside a longer one", 2 * time.Second, 2.5, []float64{-25, -25, -30, -30, -30}, []float64{-25, -25, -30, -30, -30}, 0, 2.5},
		{"inside a longer one, after a refund", 2 * time.Second, 2.5, []float64{5, 5, -30, -30, -30}, []float64{5, 5, -30, -30, -30}, 0, 2.5},
		{"longer than the one that is there", 2 * time.Second, 1.5, []float64{-15, -15, -30, -30, -30}, []float64{-20, -20, -35, -35, -35}, -.5, 2},
		{"of no length", 0, 0, []float64{5, 5, -30, -30, -30}, []float64{5, 5, -30, -30, -30}, 0, 0},
		{"of negative length", -time.Hour, 0, []float64{5, 5, -30, -30, -30}, []float64{5, 5, -30, -30, -30}, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			before := bucketOf(c.before...)
			before.Shift, before.Carry, before.Blocked = 1, .1, c.blocked
			got, o := reservations.Step(before, ten(math.Inf(1)), clock(100), reservations.Request{Op: block, Tokens: []float64{0}, For: c.length})
			want := bucketOf(c.after...)
			want.Shift, want.Carry, want.Blocked, want.Version = 1+c.shift, .1, c.left, 42
			if diff := cmp.Diff(want, got, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
				t.Errorf("bucket (-want +got):\n%s", diff)
			}
			if o.State != settled || math.Abs(o.Wait().Seconds()-c.left) > 1e-8 || o.Shift.Seconds() != want.Shift {
				t.Errorf("outcome %+v", o)
			}
		})
	}
}

// Two blocks, one reaching beyond the other, are one block.
func TestStepBlocksJoin(t *testing.T) {
	t.Parallel()
	l := ten(math.Inf(1))
	b := bucketOf(5, 5, -15, -15, -30)
	apart, _ := reservations.Step(b, l, clock(100), reservations.Request{Op: block, Tokens: []float64{0}, For: 2 * time.Second})
	apart, _ = reservations.Step(apart, l, clock(101), reservations.Request{Op: block, Tokens: []float64{0}, For: 3 * time.Second})
	joined, _ := reservations.Step(b, l, clock(100), reservations.Request{Op: block, Tokens: []float64{0}, For: 4 * time.Second})
	joined, _ = reservations.Step(joined, l, clock(101), reservations.Request{Op: block, Tokens: []float64{0}})
	if diff := cmp.Diff(joined, apart, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
		t.Errorf("(-one +two):\n%s", diff)
	}
}

// Tokens that come back during a block neither end it nor bring those who wait back before it ends.
func TestStepSettleDuringBlock(t *testing.T) {
	t.Parallel()
	l := ten(math.Inf(1))
	var b reservations.Bucket
	step := func(at float64, r reservations.Request) (o reservations.Outcome) {
		b, o = reservations.Step(b, l, clock(at), r)
		return o
	}
	step(0, reservations.Request{Op: begin, Tokens: []float64{10}})
	waits := step(0, reservations.Request{Op: begin, Tokens: []float64{5}})
	step(0, reservations.Request{Op: block, Tokens: []float64{0}, For: time.Second})
	for range 5 {
		o := step(.1, reservations.Request{Op: settle, Tokens: []float64{9}})
		if woken := waits.Due.Add(-o.Shift); woken.Before(clock(1)) {
			t.Fatalf("woken at %v s", woken.Sub(virtualStart).Seconds())
		}
	}
	for _, s := range []reservations.State{fresh, ticket, again, reserved, late} {
		if _, o := reservations.Step(b, l, clock(.7), reservations.Request{Op: begin, State: s, Tokens: []float64{0}}); o.Started() {
			t.Errorf("%s starts .3 s before the block ends", s)
		}
	}
	if o := step(.9, reservations.Request{Op: begin, State: reserved, Tokens: []float64{5}}); !o.Started() || (o.Hold-100*time.Millisecond).Abs() > time.Microsecond {
		t.Errorf("a little before the block ends: %+v, want a hold until then", o)
	}
	b = reservations.Bucket{} // and where nobody waits
	step(0, reservations.Request{Op: block, Tokens: []float64{0}, For: time.Second})
	step(.1, reservations.Request{Op: settle, Tokens: []float64{100}})
	if full := b.FullAt(l); full.Before(clock(1)) {
		t.Errorf("the block is forgotten at %v s", full.Sub(virtualStart).Seconds())
	}
}

func TestLimiterBlock(t *testing.T) {
	t.Parallel()
	l := setupLimiter(t, steady())
	ctx := t.Context()
	if _, err := l.Block(ctx, "unknown", "", time.Second); !errors.Is(err, reservations.ErrUnknownLimit) {
		t.Errorf("of an unknown limit: %v", err)
	}
	for _, d := range []time.Duration{0, -time.Second} {
		if o, err := l.Block(ctx, "steady", "k", d); err != nil || o != (reservations.Outcome{}) {
			t.Errorf("for %v: %+v, %v", d, o, err)
		}
	}
	if calls := l.store.asked(); len(calls) > 0 {
		t.Errorf("the store was asked %v", calls)
	}
	if o, err := l.Block(ctx, "steady", "k", 5*time.Second); err != nil || o.State != settled || o.Shift != -5*time.Second {
		t.Errorf("%+v, %v", o, err)
	}
	c := chargeOf("steady", 1)
	if o, err := l.Begin(ctx, c, reservations.Place{}); err != nil || !o.Started() {
		t.Errorf("another bucket: %+v, %v", o, err)
	}
	c.Key = "k"
	if o, err := l.Begin(ctx, c, reservations.Place{}); err != nil || o.State != reserved || o.Wait() != 5100*time.Millisecond {
		t.Errorf("%+v, %v", o, err)
	}
	if err := l.Reset(ctx, "steady", "k"); err != nil {
		t.Fatal(err)
	}
	if o, err := l.Begin(ctx, c, reservations.Place{}); err != nil || !o.Started() {
		t.Errorf("after a reset: %+v, %v", o, err)
	}
}

// While the store is away a block is repeated for what is left of it, and no longer.
func TestLimiterBlockRepeats(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		faults int
		length time.Duration
		limit  time.Duration // of the context
		want   error
	}{
		{"until the store is back", 3, time.Minute, time.Hour, nil},
		{"until it would be over", 1000, 10 * time.Second, time.Hour, reservations.ErrUnavailable},
		{"until the context ends", 1000, time.Hour, 5 * time.Second, reservations.ErrUnavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := setupLimiter(t, steady())
				for range c.faults {
					l.store.faults = append(l.store.faults, down)
				}
				ctx, cancel := context.WithTimeout(t.Context(), c.limit)
				defer cancel()
				start := time.Now()
				if _, err := l.Block(ctx, "steady", "", c.length); !errors.Is(err, c.want) {
					t.Errorf("%v, want %v", err, c.want)
				}
				took, calls := time.Since(start), l.store.asked()
				if took > min(c.length, c.limit) {
					t.Errorf("took %v", took)
				}
				if last := calls[len(calls)-1][0].For; len(calls) < 4 || calls[0][0].For != c.length || last >= c.length || last <= 0 {
					t.Errorf("%d calls, the last for %v", len(calls), last)
				}
			})
		})
	}
}
