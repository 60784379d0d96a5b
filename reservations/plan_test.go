package reservations_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/test/seeded"
	"github.com/headway-go/headway/reservations"
)

func asks(tokens ...float64) (all []bucket.Ask) {
	for _, n := range tokens {
		all = append(all, bucket.Ask{Tokens: reservations.Tokens{"tokens": n}})
	}
	return all
}

func TestPlan(t *testing.T) {
	t.Parallel()
	urgents := func(of []bucket.Ask) []bucket.Ask {
		for i := range of {
			of[i].Urgent = true
		}
		return of
	}
	after := func(l reservations.Limit, requests ...bucket.Request) bucket.Bucket {
		b, _ := bucket.Fold(bucket.Bucket{}, bucket.Rules(l), clock(0), requests)
		return b
	}
	headroom := withHeadroom(ten(inf), 4)
	for _, c := range []struct {
		name   string
		bucket bucket.Bucket
		now    float64
		asks   []bucket.Ask
		until  float64
		want   []float64
	}{
		{"none", after(ten(inf), start(10)), 0, nil, 100, []float64{}},
		{"in their order", after(ten(inf), start(10)), 0, asks(5, 5, 1), 100, []float64{.5, 1, 1.1}},
		{"a burst", after(ten(inf), start(1)), 0, asks(5, 4, 3), 100, []float64{0, 0, .3}},
		{"promises do not count", after(ten(inf), start(10), reserve(50)), 0, asks(5), 100, []float64{.5}},
		{"filled meanwhile", after(ten(inf), start(10)), .8, asks(5, 5), 100, []float64{.8, 1}},
		{"the first one after until is the last", after(ten(inf), start(10)), 0, asks(5, 5, 5, 5), .5, []float64{.5, 1}},
		{"above the capacity", after(ten(inf), start(5)), 0, asks(30, 1), 100, []float64{.5, 2.6}},
		{"blocked", after(ten(inf), start(5), block(3)), 1, asks(0, 1), 100, []float64{3, 3.1}},
		{"an earlier clock", after(ten(inf), start(10)), -30, asks(5), 100, []float64{.5}},
		{"never used", bucket.Bucket{}, 7, asks(500, 500), 100, []float64{7, 7}},
		{"headroom", after(headroom, start(6)), 0, asks(2, 2), 100, []float64{.2, .4}},
		{"within the headroom", after(headroom, start(6)), 0, urgents(asks(2, 2, 2)), 100, []float64{0, 0, .2}},
		{
			"another meter", after(ten(inf), start(10)), 0,
			[]bucket.Ask{{Tokens: reservations.Tokens{"else": 5}}},
			100,
			[]float64{0},
		},
		{
			"windows", after(limitOf(window("tokens", 10, 0, 60, inf)), start(7)), 5, asks(3, 8, 8, 2), 1000,
			[]float64{5, 60, 120, 120},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			before := fmt.Sprintf("%+v", c.bucket)
			got := []float64{}
			for _, at := range c.bucket.Plan(clock(c.now), c.asks, clock(c.until)) {
				got = append(got, at.Sub(virtualStart).Seconds())
			}
			if diff := cmp.Diff(c.want, got, cmpopts.EquateApprox(0, 1e-8)); diff != "" {
				t.Error(diff)
			}
			if after := fmt.Sprintf("%+v", c.bucket); after != before {
				t.Errorf("the plan changed %s to %s", before, after)
			}
		})
	}
}

// Step does what Plan says: a task that asks at its moment starts and does not hold, and one that asks earlier holds or
// waits.
func TestPlanAgreesWithStep(t *testing.T) {
	t.Parallel()
	seeded.Check(t, func(t *rapid.T) {
		m := newMachine(t)
		m.disturb(t, rapid.IntRange(0, 30).Draw(t, "requests"))
		b, l, now := m.bucket, m.limit, clock(m.now)
		b, _ = bucket.Step(b, bucket.Rules(l), now, refresh())
		if now.Before(b.At) {
			now = b.At
		}
		var all []bucket.Ask
		var requests []bucket.Request
		for range rapid.IntRange(1, 20).Draw(t, "tasks") {
			r := promoted(m.drawTokens(t)...)
			a := bucket.Ask{Urgent: rapid.Bool().Draw(t, "urgent"), Tokens: reservations.Tokens{}}
			for k, meter := range l.Meters {
				a.Tokens[meter.Name] = r.Tokens[k]
			}
			r.Urgent = a.Urgent
			all, requests = append(all, a), append(requests, r)
		}
		text := fmt.Sprintf("%+v", b)
		starts := b.Plan(now, all, now.Add(bucket.MaxWait))
		if after := fmt.Sprintf("%+v", b); after != text {
			t.Fatalf("the plan changed %s to %s", text, after)
		}
		for i, at := range starts {
			if i > 0 && at.Before(starts[i-1]) {
				t.Fatalf("task %d is planned at %v, before the one ahead of it at %v", i, at, starts[i-1])
			}
			earlier := at.Add(-time.Millisecond)
			if earlier.After(now) && (i == 0 || earlier.After(starts[i-1])) {
				if _, o := bucket.Step(b, bucket.Rules(l), earlier, requests[i]); o.Started() && o.Hold < 999*time.Microsecond {
					t.Fatalf("task %d is planned at %v, and starts a millisecond earlier: %+v", i, at, o)
				}
			}
			var o bucket.Answer
			if b, o = bucket.Step(b, bucket.Rules(l), at, requests[i]); !o.Started() || o.Hold != 0 {
				t.Fatalf("task %d is planned at %v, and is answered %+v", i, at, o)
			}
		}
	})
}

func TestExpect(t *testing.T) {
	t.Parallel()
	b := life(t, withHeadroom(ten(inf), 2), []moment{{0, start(8), started, 0}})
	day := life(t, limitOf(window("tokens", 10, 0, 60, inf)), []moment{{0, start(8), started, 0}})
	blocked := life(t, ten(inf), []moment{{0, block(5), settled, 5}})
	for _, c := range []struct {
		bucket bucket.Bucket
		now    float64
		tokens float64
		want   float64
	}{
		{
			b, 0, 0, 0,
		},
		{b, 0, 50, 5},
		{b, 1, 50, 5.2},
		{day, 0, 2, 0},
		{day, 0, 33, 240},
		{
			blocked, 1, 0,
			5,
		},
		{blocked, 1, 50, 10},
		{bucket.Bucket{}, 3, 50, 3},
	} {
		got := c.bucket.Expect(clock(c.now), reservations.Tokens{"tokens": c.tokens})
		if want := clock(c.want); got.Sub(want).Abs() > time.Microsecond {
			t.Errorf("%v tokens at %v: %v, want %v", c.tokens, c.now, got, want)
		}
	}
}
