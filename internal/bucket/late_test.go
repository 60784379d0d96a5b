package bucket_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/products/judge"
	"github.com/headway-go/headway/internal/test/seeded"
)

// began is the moment at which all histories begin.
var began = time.Unix(1_795_262_400, 0)

// lateWorld is a bucket, and a provider that counts the same calls: when they come, and what they did not use when they
// end. The settlements of some calls reach the bucket late.
type lateWorld struct {
	*rand.Rand

	limit    bucket.Limit
	bucket   bucket.Bucket
	provider judge.Meter
	now      time.Time
	ids      int64
	coming   []happening // by their moments
	fault    string
	calls    int
}

type happening struct {
	at   time.Time
	what func()
}

func newLateWorld(seed uint64, filling bucket.Filling) *lateWorld {
	w := &lateWorld{Rand: rand.New(rand.NewPCG(seed, 3)), now: began}
	w.limit = bucket.Limit{Name: "api", MaxBlock: time.Minute, Meters: []bucket.Meter{{
		Name: "tokens", Filling: filling, MaxReserved: math.Inf(1),
	}}}
	w.provider = judge.NewBucket(filling.Rate, filling.Capacity, 0, began)
	if filling.Period > 0 {
		w.provider = judge.NewWindow(filling.Rate, filling.Period, filling.Offset, 0)
	}
	return w
}

func (w *lateWorld) ask(r bucket.Request) (a bucket.Answer) {
	w.bucket, a = bucket.Step(w.bucket, w.limit, w.now, r)
	return a
}

func (w *lateWorld) plan(at time.Time, what func()) {
	i := len(w.coming)
	for i > 0 && w.coming[i-1].at.After(at) {
		i--
	}
	w.coming = slices.Insert(w.coming, i, happening{at, what})
}

// pass lets everything happen until a moment.
func (w *lateWorld) pass(until time.Time) {
	for len(w.coming) > 0 && !w.coming[0].at.After(until) {
		next := w.coming[0]
		w.coming, w.now = w.coming[1:], next.at
		w.provider.Fill(w.now)
		next.what()
	}
	w.now = until
	w.provider.Fill(w.now)
}

// call asks for a start. The call lasts for a while, uses a part, and is settled late.
func (w *lateWorld) call(tokens, used float64, lasts, late time.Duration) {
	a := w.ask(bucket.Request{Op: bucket.OpStart, Tokens: []float64{tokens}, Promoted: true})
	if !a.Started() {
		return
	}
	w.calls++
	w.ids++
	id, comes := w.ids, w.now.Add(a.Hold)
	w.plan(comes, func() {
		if !w.provider.HasRoom(tokens-1e-4) && w.fault == "" {
			_, level, _ := w.provider.Limits()
			w.fault = fmt.Sprintf("a call of %v at %v, where the provider has %v", tokens, w.now.Sub(began), level)
		}
		w.provider.Add(-tokens)
	})
	w.plan(comes.Add(lasts), func() { w.provider.Add(tokens - used) })
	// Settlements that were sent before know how old they are. First ones know when the call ended, and are exact where
	// that is more than LateMost ago.
	settlement := bucket.Request{Op: bucket.OpSettle, ID: id, Tokens: []float64{tokens - used}, HoldEnd: a.HoldEnd()}
	if w.IntN(2) == 0 {
		settlement.Late = late
	} else {
		if late <= bucket.LateMost {
			late = 0
		}
		settlement.Ended = comes.Add(lasts - w.duration(0, time.Millisecond, 20*time.Millisecond))
	}
	w.plan(comes.Add(lasts+late), func() { w.ask(settlement) })
}

// unmade asks for a start whose call is not made. It is given back some time after the call could begin.
func (w *lateWorld) unmade(tokens float64, later time.Duration) {
	a := w.ask(bucket.Request{Op: bucket.OpStart, Tokens: []float64{tokens}, Promoted: true})
	if !a.Started() {
		return
	}
	could := w.now.Add(a.Hold)
	w.plan(could.Add(later), func() {
		w.ask(bucket.Request{Op: bucket.OpSettle, Tokens: []float64{tokens}, Began: could, HoldEnd: a.HoldEnd()})
	})
}

// A start that is given back at once, or before others start, comes back whole. If the provider's bucket was full
// before another call began, what was missing to that comes back.
func TestUnmadeCalls(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		of, later, other, want float64
	}{
		{of: 90, later: 0, want: 100},
		{of: 90, later: 5, want: 100},
		{of: 90, later: 5, other: 10, want: 93},   // at 2 s, another call took 10 of the provider's 100
		{of: 90, later: 60, other: 10, want: 100}, // as above, and it has filled since
	} {
		w := newLateWorld(1, bucket.Filling{Rate: 1, Capacity: 100})
		w.unmade(c.of, time.Duration(c.later*1e9))
		if c.other > 0 {
			w.pass(began.Add(2 * time.Second))
			w.call(c.other, c.other, time.Second, 0)
		}
		w.pass(began.Add(time.Duration(c.later * 1e9)))
		if left := w.bucket.Meters[0].Started; math.Abs(left-c.want) > 1e-6 {
			t.Errorf("%+v: %v are left", c, left)
		}
	}
}

// A settlement that comes after the bucket has filled gives nothing back: the provider's full bucket has lost it.
func TestLateRefund(t *testing.T) {
	t.Parallel()
	w := newLateWorld(1, bucket.Filling{Rate: 1, Capacity: 100})
	w.call(100, 10, time.Second, 10*time.Minute)
	w.pass(began.Add(10 * time.Minute))
	w.call(100, 100, time.Second, 0)
	for range 20 {
		w.pass(w.now.Add(time.Second))
		w.call(10, 10, time.Second, 0)
	}
	if w.fault != "" || w.calls > 4 {
		t.Errorf("%d calls: %s", w.calls, w.fault)
	}
}

// While the store is away, nothing starts. The first settlements after that give back all that their calls did not use.
func TestRefundsAfterAnOutage(t *testing.T) {
	t.Parallel()
	w := newLateWorld(1, bucket.Filling{Rate: 1, Capacity: 100})
	for range 10 {
		w.call(10, 1, time.Second, 10*time.Second)
	}
	w.pass(began.Add(11 * time.Second))
	w.ask(bucket.Request{Op: bucket.OpRefresh})
	if left := w.bucket.Meters[0].Started; math.Abs(left-100) > 1e-6 {
		t.Errorf("%v are left, want 100", left)
	}
}

// A provider whose capacity was changed, and one whose bucket was lost, gives back what it had room for then.
func TestLateRefundsOfOtherBuckets(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*lateWorld){
		"raised": func(w *lateWorld) { w.limit.Meters[0].Filling.Capacity = 200 },
		"lowered, and raised": func(w *lateWorld) {
			w.limit.Meters[0].Filling.Capacity = 20
			w.ask(bucket.Request{Op: bucket.OpRefresh})
			w.limit.Meters[0].Filling.Capacity = 100
		},
		"lost": func(w *lateWorld) { w.bucket.Since = w.now },
	} {
		w := newLateWorld(1, bucket.Filling{Rate: 1, Capacity: 100})
		ask := func(r bucket.Request) { w.ask(r) }
		ask(bucket.Request{Op: bucket.OpStart, Tokens: []float64{100}})
		w.now = began.Add(100 * time.Second)
		change(w)
		ask(bucket.Request{Op: bucket.OpRefresh})
		w.now = began.Add(150 * time.Second)
		ask(bucket.Request{Op: bucket.OpStart, Tokens: []float64{10}})
		before := w.bucket.Meters[0].Started
		ask(bucket.Request{Op: bucket.OpSettle, ID: 1, Tokens: []float64{90}, Late: 149 * time.Second})
		if after := w.bucket.Meters[0].Started; after != before {
			t.Errorf("%s: %v became %v", name, before, after)
		}
	}
}

// In random histories with late settlements, and with calls that are not made, the provider has room for each call that
// the bucket lets start. When all is settled, the bucket has as much as the provider, or a little less.
func TestLateRefundsKeepTheLimit(t *testing.T) {
	t.Parallel()
	for seed := range seeded.Range(t, 1000) {
		r := rand.New(rand.NewPCG(seed, 1))
		f := bucket.Filling{Rate: 1 + 20*r.Float64(), Capacity: 5 + 100*r.Float64()}
		if seed%4 == 0 {
			f = bucket.Filling{Rate: 50, Capacity: 50, Period: 20 * time.Second}
		}
		w := newLateWorld(seed, f)
		for range 150 {
			w.pass(w.now.Add(time.Duration(w.ExpFloat64() * float64(w.duration(time.Millisecond, time.Second, 10*time.Second)))))
			tokens := f.Capacity * w.Float64()
			if w.IntN(4) == 0 {
				w.unmade(tokens, w.duration(0, time.Second, time.Minute))
				continue
			}
			w.call(tokens, tokens*w.Float64(), w.duration(0, time.Second, 5*time.Second),
				w.duration(0, 0, time.Second, 10*time.Second, time.Minute))
			if w.fault != "" {
				t.Fatalf("history %d with %+v: %s", seed, f, w.fault)
			}
		}
	}
}

// duration draws one, or a part of it.
func (w *lateWorld) duration(of ...time.Duration) time.Duration {
	d := of[w.IntN(len(of))]
	return time.Duration(float64(d) * w.Float64())
}
