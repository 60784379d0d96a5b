package reservations_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/calls/pause"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/memstore"
)

// seen is what a table wants of a view of one meter; waits are in seconds.
type seen struct {
	Level, Debt, Promised, Ahead float64
	AheadIn, Blocked, Done       float64
}

func seenOf(v reservations.View) seen {
	m := v.Meters[0]
	return seen{
		Level: m.Level, Debt: m.Debt, Promised: m.Promised, Ahead: m.Ahead,
		AheadIn: m.AheadIn.Seconds(), Blocked: v.Blocked.Seconds(), Done: v.DoneIn.Seconds(),
	}
}

func TestBucketView(t *testing.T) {
	t.Parallel()
	of := func(r ...bucket.Request) []bucket.Request { return r }
	for name, c := range map[string]struct {
		limit    reservations.Limit
		requests []bucket.Request
		after    float64
		want     seen
	}{
		"never used":         {ten(0), nil, 0, seen{Level: 10}},
		"started":            {ten(0), of(start(6)), 0, seen{Level: 4}},
		"filled again":       {ten(0), of(start(6)), .25, seen{Level: 6.5}},
		"full":               {ten(0), of(start(6)), 60, seen{Level: 10}},
		"before itself":      {ten(0), of(start(6)), -5, seen{Level: 4}},
		"long before itself": {ten(0), of(start(6)), -500, seen{Level: 4}},
		"promised":           {ten(inf), of(start(4), reserve(3)), 0, seen{Level: 6, Promised: 3}},
		"promised ahead": {
			ten(inf), of(start(10), start(25)), 0, seen{Promised: 25, Ahead: 25, AheadIn: 2.5, Done: 2.5},
		},
		"promised, a second later": {
			ten(inf), of(start(10), start(25)), 1, seen{Level: 10, Promised: 25, Ahead: 15, AheadIn: 1.5, Done: 1.5},
		},
		"debt": {
			ten(inf), of(start(10), settle(-30)), 1, seen{Level: -20, Debt: 20, Ahead: 20, AheadIn: 2, Done: 2},
		},
		"blocked": {ten(inf), of(block(5)), 2, seen{Blocked: 3, Done: 3}},
		"blocked with promises": {
			ten(inf), of(reserve(30), block(5)), 2, seen{Promised: 20, Ahead: 20, AheadIn: 5, Blocked: 3, Done: 5},
		},
		"a window": {
			limitOf(window("w", 10, 0, 60, inf)), of(start(10), start(8), start(8)), 5,
			seen{Promised: 16, Ahead: 16, AheadIn: 15 + 60, Done: 75},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, _ := bucket.Fold(bucket.Bucket{}, bucket.Rules(c.limit), clock(1000), c.requests)
			got := seenOf(reservations.ViewOf(b, c.limit, "k", clock(1000+c.after)))
			if d := cmp.Diff(c.want, got, cmpopts.EquateApprox(0, 1e-6)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func TestLimiterViewChangesNothing(t *testing.T) {
	t.Parallel()
	b := setupLimiter(t, steady())
	v, err := b.View(t.Context(), "steady", "k")
	if err != nil || v.Found || v.Meters[0].Level != 10 || v.Limit != "steady" || v.Key != "k" || !v.Now.Equal(b.now) {
		t.Errorf("an unused bucket: %+v, %v", v, err)
	}
	if !b.bucket("steady", "k").At.IsZero() {
		t.Error("a view of a bucket created it")
	}
	c := chargeOf("steady", 10)
	c.Key = "k"
	b.mustStart(t, c)
	before := b.bucket("steady", "k")
	b.now = b.now.Add(500 * time.Millisecond)
	if v, err = b.View(t.Context(), "steady", "k"); err != nil || !v.Found || v.Meters[0].Level != 5 ||
		!v.At.Equal(before.At) {
		t.Errorf("half a second later: %+v, %v", v, err)
	}
	if d := cmp.Diff(before, b.bucket("steady", "k")); d != "" {
		t.Errorf("a view changed the bucket:\n%s", d)
	}
}

func TestViewSumsShards(t *testing.T) {
	t.Parallel()
	limit := steady()
	limit.Shards = 2
	b := setupLimiter(t, limit)
	half := reservations.Limit{Name: "steady#2", Meters: []reservations.Meter{reservations.PerSecond("tokens", 5)}}
	for _, n := range []float64{5, 10} {
		if _, err := bucket.Apply(t.Context(), b.mem, bucket.Rules(half), "k", []bucket.Request{start(n)}); err != nil {
			t.Fatal(err)
		}
	}
	v, err := b.View(t.Context(), "steady", "k")
	if err != nil || len(v.Shards) != 2 || v.Shards[1].Shard != 2 || v.Shards[1].Key != "k" || !v.Found ||
		v.Limit != "steady" || v.Key != "k" {
		t.Fatalf("%+v, %v", v, err)
	}
	want := seen{Level: 5, Promised: 10, Ahead: 10, AheadIn: 2, Done: 2}
	if d := cmp.Diff(want, seenOf(v), cmpopts.EquateApprox(0, 1e-6)); d != "" {
		t.Errorf("sum (-want +got):\n%s", d)
	}
	if m := v.Meters[0]; m.Rate != 10 || m.Cap() != 10 {
		t.Errorf("the sum has a rate of %v and a capacity of %v", m.Rate, m.Cap())
	}
	if m := v.Shards[0].Meters[0]; m.Rate != 5 || m.Level != 5 || v.Shards[0].Found {
		t.Errorf("the first shard is %+v", v.Shards[0])
	}
}

// slow is a store whose Load takes a second.
type slow struct{ reservations.Store }

func (s slow) Update(ctx context.Context, _, _ string, change reservations.Change) error {
	return bucket.Serve(ctx, change, bucket.Applier(s.Store), s.Load)
}

func (s slow) Load(ctx context.Context, limit, key string) (bucket.Bucket, time.Time, error) {
	if err := pause.For(ctx, time.Second); err != nil {
		return bucket.Bucket{}, time.Time{}, err
	}
	return bucket.Read(ctx, s.Store, limit, key)
}

func TestShardsAreReadAtTheSameTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limit := steady()
		limit.Shards = 8
		l, err := reservations.New(slow{memstore.New()}, []reservations.Limit{limit}, reservations.Config{})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		v, err := l.View(t.Context(), "steady", "")
		if took := time.Since(began); err != nil || len(v.Shards) != 8 || took != time.Second {
			t.Errorf("%d shards after %v: %v", len(v.Shards), took, err)
		}
	})
}

// away is a store that can't be read.
type away struct{ reservations.Store }

func (s away) Update(ctx context.Context, _, _ string, change reservations.Change) error {
	return bucket.Serve(ctx, change, bucket.Applier(s.Store), s.Load)
}

func (away) Load(context.Context, string, string) (bucket.Bucket, time.Time, error) {
	return bucket.Bucket{}, time.Time{}, &bucket.UnavailableError{Bucket: "steady", Err: errCable}
}

func TestViewErrors(t *testing.T) {
	t.Parallel()
	sharded := steady()
	sharded.Name, sharded.Shards = "sharded", 2
	l, err := reservations.New(away{}, []reservations.Limit{steady(), sharded}, reservations.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for limit, want := range map[string]error{
		"unknown": reservations.ErrUnknownLimit, "steady": errCable,
		"sharded": errCable,
	} {
		if v, err := l.View(t.Context(), limit, ""); !errors.Is(err, want) || v.Found {
			t.Errorf("%s: %+v, %v, want %v", limit, v, err, want)
		}
	}
}
