package reservations_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/headway-go/headway/reservations"
)

// seen is what a table wants of a view of one meter; waits are in seconds.
type seen struct {
	Level, Debt, Late, Ahead, Line float64
	Plan, Behind, Blocked, Done    float64
}

func seenOf(v reservations.View) seen {
	m := v.Meters[0]
	return seen{
		Level: m.Level, Debt: m.Debt, Late: m.Late, Ahead: m.Plan, Line: m.Line, Plan: m.PlanIn.Seconds(), Behind: m.LineIn.Seconds(),
		Blocked: v.Blocked.Seconds(), Done: v.DoneIn.Seconds(),
	}
}

func TestBucketView(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limit reservations.Limit
		asks  []reservations.Request
		after float64
		want  seen
	}{
		"never used":    {ten(0), nil, 0, seen{Level: 10}},
		"started":       {ten(0), []reservations.Request{{Op: begin, Tokens: []float64{6}}}, 0, seen{Level: 4}},
		"filled again":  {ten(0), []reservations.Request{{Op: begin, Tokens: []float64{6}}}, 0.25, seen{Level: 6.5}},
		"full":          {ten(0), []reservations.Request{{Op: begin, Tokens: []float64{6}}}, 60, seen{Level: 10}},
		"before itself": {ten(0), []reservations.Request{{Op: begin, Tokens: []float64{6}}}, -5, seen{Level: 4}},
		"promised": {
			ten(reservations.Unlimited),
			[]reservations.Request{{Op: begin, Tokens: []float64{10}}, {Op: begin, Tokens: []float64{25}}},
			0,
			seen{Ahead: 25, Plan: 2.5, Behind: 2.5, Done: 2.5},
		},
		"promised, a second later": {
			ten(reservations.Unlimited),
			[]reservations.Request{{Op: begin, Tokens: []float64{10}}, {Op: begin, Tokens: []float64{25}}},
			1,
			seen{Level: 10, Ahead: 15, Plan: 1.5, Behind: 1.5, Done: 1.5},
		},
		"behind max_reserved": {
			ten(10),
			[]reservations.Request{{Op: begin, Tokens: []float64{10}}, {Op: begin, Tokens: []float64{4}}, {Op: begin, Tokens: []float64{8}}},
			0,
			seen{Ahead: 4, Line: 8, Plan: 0.4, Behind: 1.2, Done: 1.2},
		},
		"late": {
			ten(reservations.Unlimited),
			[]reservations.Request{{Op: begin, Tokens: []float64{10}}, {Op: begin, State: reserved, Tokens: []float64{8}}},
			0,
			seen{Late: 8, Ahead: 8, Plan: 0.8, Behind: 0.8, Done: 0.8},
		},
		"debt": {
			ten(reservations.Unlimited),
			[]reservations.Request{{Op: begin, Tokens: []float64{10}}, {Op: settle, Tokens: []float64{-30}}},
			1,
			seen{Level: -20, Debt: 20, Ahead: 20, Plan: 2, Behind: 2, Done: 2},
		},
		"blocked": {
			ten(reservations.Unlimited),
			[]reservations.Request{{Op: block, Tokens: []float64{0}, For: 5 * time.Second}},
			2,
			seen{Level: -30, Debt: 30, Ahead: 30, Plan: 3, Behind: 3, Blocked: 3, Done: 3},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var b reservations.Bucket
			for _, r := range c.asks {
				b, _ = reservations.Step(b, c.limit, clock(1000), r)
			}
			got := seenOf(b.View(c.limit, "k", clock(1000+c.after)))
			if d := cmp.Diff(c.want, got, cmpopts.EquateApprox(0, 1e-6)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// What nobody asked for of a meter that is not scarce is told, and is no more than what it owes.
func TestViewOfAGap(t *testing.T) {
	t.Parallel()
	requests, tokens := reservations.PerSecond("requests", 1), reservations.PerSecond("tokens", 100)
	limit := reservations.Limit{Name: "two", Meters: []reservations.Meter{requests, tokens}}
	var b reservations.Bucket
	for range 101 { // the first starts
		b, _ = reservations.Step(b, limit, clock(1000), reservations.Request{Op: begin, Tokens: []float64{1, 10}})
	}
	for after, share := range map[float64]float64{0: 1, 50: 0.5, 200: 0} {
		v := b.View(limit, "k", clock(1000+after))
		if gap := v.Meters[0].Gap; gap != 0 {
			t.Errorf("after %v s, requests: %v", after, gap)
		}
		// 100 wait for requests, the last for 100 s; tokens have 10 of the 1000 that each 10 s asks for.
		if m := v.Meters[1]; m.Gap > m.Plan || m.Gap < 0.85*m.Plan || m.Plan > share*10_000 || m.Plan < share*9_700 {
			t.Errorf("after %v s, tokens: %+v", after, m)
		}
	}
}

func TestViewOfAWindow(t *testing.T) {
	t.Parallel()
	limit := reservations.Limit{Name: "daily", Meters: []reservations.Meter{reservations.PerDay("requests", 100)}}
	noon := time.Date(2026, time.March, 3, 12, 0, 0, 0, time.UTC)
	var b reservations.Bucket
	for _, n := range []float64{100, 30, 100} {
		b, _ = reservations.Step(b, limit, noon, reservations.Request{Op: begin, Tokens: []float64{n}})
	}
	want := seen{Level: 0, Ahead: 130, Plan: 36 * 3600, Behind: 36 * 3600, Done: 36 * 3600}
	if d := cmp.Diff(want, seenOf(b.View(limit, "", noon)), cmpopts.EquateApprox(0, 1e-6)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// setupView is setupLimiter with a store that tells its clock.
func setupView(t *testing.T, limits ...reservations.Limit) *limiterBundle {
	t.Helper()
	b := setupLimiter(t, limits...)
	var err error
	if b.Limiter, err = reservations.New(b.mem, limits, reservations.Config{}); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestLimiterViewChangesNothing(t *testing.T) {
	t.Parallel()
	b := setupView(t, steady())
	v, err := b.View(t.Context(), "steady", "k")
	if err != nil || v.Found || v.Meters[0].Level != 10 || v.Bucket() != "steady:k" || !v.Now.Equal(b.now) || v.Waiting {
		t.Errorf("an unused bucket: %+v, %v", v, err)
	}
	if _, ok, _ := b.mem.Bucket(t.Context(), "steady", "k"); ok {
		t.Error("a look at a bucket created it")
	}
	if _, err = b.Begin(t.Context(), reservations.Charge{Limit: "steady", Key: "k", Tokens: reservations.Tokens{"tokens": 10}}, reservations.Place{}); err != nil {
		t.Fatal(err)
	}
	before, _, _ := b.mem.Bucket(t.Context(), "steady", "k")
	b.now = b.now.Add(500 * time.Millisecond)
	if v, err = b.View(t.Context(), "steady", "k"); err != nil || !v.Found || v.Meters[0].Level != 5 || v.Version != before.Version {
		t.Errorf("half a second later: %+v, %v", v, err)
	}
	after, _, _ := b.mem.Bucket(t.Context(), "steady", "k")
	if d := cmp.Diff(before, after); d != "" {
		t.Errorf("a look changed the bucket:\n%s", d)
	}
}

func TestViewSumsShards(t *testing.T) {
	t.Parallel()
	limit := steady()
	limit.Shards = 2
	b := setupView(t, limit)
	half := reservations.Limit{Name: "steady#2", Meters: []reservations.Meter{reservations.PerSecond("tokens", 5)}}
	for _, n := range []float64{5, 10} {
		if _, err := b.mem.Apply(t.Context(), half, "k", []reservations.Request{{Op: begin, Tokens: []float64{n}}}); err != nil {
			t.Fatal(err)
		}
	}
	v, err := b.View(t.Context(), "steady", "k")
	if err != nil || len(v.Shards) != 2 || v.Shards[1].Bucket() != "steady#2:k" || v.Bucket() != "steady:k" || !v.Found || !v.Waiting {
		t.Fatalf("%+v, %v", v, err)
	}
	if d := cmp.Diff(seen{Level: 5, Ahead: 10, Plan: 2, Behind: 2, Done: 2}, seenOf(v), cmpopts.EquateApprox(0, 1e-6)); d != "" {
		t.Errorf("sum (-want +got):\n%s", d)
	}
	if m := v.Meters[0]; m.Rate != 10 || m.Cap() != 10 {
		t.Errorf("the sum has a rate of %v and a capacity of %v", m.Rate, m.Cap())
	}
	if m := v.Shards[0].Meters[0]; m.Rate != 5 || m.Level != 5 || v.Shards[0].Found {
		t.Errorf("the first shard is %+v", v.Shards[0])
	}
}

// clockless hides the clock of a store, and may fail to answer.
type clockless struct {
	reservations.Store

	err error
}

func (s clockless) Bucket(ctx context.Context, limit, key string) (reservations.Bucket, bool, error) {
	if s.err != nil {
		return reservations.Bucket{}, false, s.err
	}
	return s.Store.Bucket(ctx, limit, key)
}

func TestViewErrors(t *testing.T) {
	t.Parallel()
	b := setupLimiter(t, steady())
	if _, err := b.View(t.Context(), "unknown", ""); !errors.Is(err, reservations.ErrUnknownLimit) {
		t.Errorf("an unknown limit: %v", err)
	}
	down := &reservations.UnavailableError{Bucket: "steady", Err: errors.New("away")}
	for _, c := range []struct{ err error }{{nil}, {down}} {
		l, err := reservations.New(clockless{Store: b.mem, err: c.err}, []reservations.Limit{steady()}, reservations.Config{})
		if err != nil {
			t.Fatal(err)
		}
		v, err := l.View(t.Context(), "steady", "")
		if !errors.Is(err, c.err) || c.err == nil && time.Since(v.Now) > time.Minute {
			t.Errorf("%+v, %v, want %v", v, err, c.err)
		}
	}
}
