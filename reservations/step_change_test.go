package reservations_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/headway-go/headway/reservations"
)

func windowOfSeconds(rate, period float64, start time.Duration) reservations.Meter {
	m := perSecond("tokens", rate, 0, math.Inf(1))
	m.Kind, m.Period, m.Start = reservations.KindWindow, time.Duration(period*float64(time.Second)), start
	return m
}

// What is left for use after a limit has changed, some seconds after the last call. Nothing is minted.
func TestStepLimitChanges(t *testing.T) {
	t.Parallel()
	bucket := func(rate, capacity float64) reservations.Meter {
		return perSecond("tokens", rate, capacity, math.Inf(1))
	}
	start := time.Duration(clock(100).UnixNano()) % time.Minute // of the windows of a minute
	window := func(rate float64) reservations.Meter { return windowOfSeconds(rate, 60, start) }
	rollover := func(rate, capacity float64) reservations.Meter {
		m := window(rate)
		m.Capacity = capacity
		return m
	}
	for _, c := range []struct {
		name     string
		from, to reservations.Meter
		use      float64
		blocked  float64
		after    float64 // seconds
		want     float64
	}{
		{"raised: what has passed comes at the old rate", bucket(1, 100), bucket(10, 100), 10, 0, 5, 15},
		{"lowered: what has passed comes at the new rate", bucket(10, 100), bucket(1, 100), 10, 0, 5, 15},
		{"a lower capacity holds at once", bucket(10, 100), bucket(10, 3), 10, 0, 0, 3},
		{"a higher one is not filled", bucket(10, 10), bucket(10, 30), 10, 0, 5, 10},
		{"debt stays", bucket(10, 10), bucket(1, 1), -20, 0, 0, -20},
		{"raised in a block: empty when it ends", bucket(1, 100), bucket(10, 100), -2, 2, 0, -20},
		{"lowered in a block: empty when it ends", bucket(10, 100), bucket(1, 100), -20, 2, 0, -2},
		{"a window that is raised has so many more at once", window(10), window(15), 4, 0, 5, 9},
		{"a window that is lowered has so many less at once", window(15), window(10), 9, 0, 5, 4},
		{"and may come into debt", window(15), window(10), 0, 0, 5, -5},
		{"a full one is full", window(15), window(10), 15, 0, 5, 10},
		{"with a capacity of its own only that counts", rollover(10, 30), rollover(20, 30), 7, 0, 5, 7},
		{"a capacity that is raised", rollover(10, 30), rollover(10, 40), 7, 0, 5, 17},
		{"that ended meanwhile", window(15), window(10), 0, 0, 65, 10},
		{"that was full when it ended", window(10), window(15), 7, 0, 65, 15},
		{"another start: as often as both windows ended", window(10), windowOfSeconds(10, 60, start+30*time.Second), -25, 0, 100, -15},
		{"and not at all where only one did", window(10), windowOfSeconds(10, 60, start+30*time.Second), -25, 0, 50, -25},
		{"another period", window(10), windowOfSeconds(10, 1, 0), -25, 0, 100, -15},
		{"another period, the lesser rate", window(10), windowOfSeconds(1, 1, 0), -25, 0, 100, -24},
		{"a bucket that becomes a window fills from then on", bucket(10, 10), window(10), 1, 0, 100, 1},
		{"a window that becomes a bucket too", window(10), bucket(10, 10), 1, 0, 100, 1},
		{"and is empty when the block ends", window(10), bucket(10, 10), 5, 2, 0, -15},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := reservations.Bucket{At: clock(100), Blocked: c.blocked}
			b.Meters = []reservations.MeterState{{Name: "tokens", Filling: c.from.Filling(), Ledgers: [5]float64(slices.Repeat([]float64{c.use}, 5))}}
			b, _ = reservations.Step(b, limitOf(c.to), clock(100+c.after), reservations.Request{Op: check, Tokens: []float64{0}})
			if got := b.Meters[0].Ledgers; math.Abs(got[0]-c.want) > 1e-9 || got[0] != got[4] {
				t.Errorf("left are %v, want %v", got, c.want)
			}
		})
	}
}

// Callers whose limits have different meters take turns, as in a rolling deployment: each of the meters holds.
func TestStepIdleMeters(t *testing.T) {
	t.Parallel()
	a, b := perSecond("a", 10, 10, math.Inf(1)), perSecond("b", 1, 30, math.Inf(1))
	both, onlyA := limitOf(a, b), limitOf(a)
	var bucket reservations.Bucket
	step := func(at float64, l reservations.Limit, r reservations.Request) (o reservations.Outcome) {
		bucket, o = reservations.Step(bucket, l, clock(at), r)
		return o
	}
	startedB := 0.
	for at := 0.; at < 100; at++ {
		if step(at, both, reservations.Request{Op: take, Tokens: []float64{1, 5}}).Started() {
			startedB += 5
		}
		for i := range 3 {
			step(at+float64(i)/10, onlyA, reservations.Request{Op: take, Tokens: []float64{1}})
		}
	}
	if most := 30 + 100.; startedB > most || startedB < most-6 {
		t.Errorf("%v of b were taken in 100 s, want nearly %v", startedB, most)
	}
	if len(bucket.Idle) != 1 || bucket.Idle[0].Name != "b" || len(bucket.Meters) != 1 {
		t.Errorf("%+v", bucket)
	}
	if full := bucket.FullAt(onlyA); full.Before(clock(120)) { // b owes more than 20 s
		t.Errorf("forgotten at %v s, when b is not full", full.Sub(virtualStart).Seconds())
	}
	step(1000, both, reservations.Request{Op: check, Tokens: []float64{0, 0}})
	if len(bucket.Idle) != 0 || !bucket.Keep.IsZero() || bucket.Meters[1].Ledgers[0] != 30 {
		t.Errorf("when b is back: %+v", bucket)
	}
	for i := range 50 { // names that come and go do not pile up
		step(1000, limitOf(perSecond(string(rune('A'+i)), 1, 1, 0)), reservations.Request{Op: check, Tokens: []float64{0}})
	}
	if len(bucket.Idle) != 16 || bucket.Idle[15].Name != string(rune('A'+48)) {
		t.Errorf("%d meters stand idle", len(bucket.Idle))
	}
}

// The clock of the line: a raised limit brings those who wait sooner, in proportion, a lowered one later, and when nobody waits it runs as any other.
func TestStepSpeed(t *testing.T) {
	t.Parallel()
	inf := math.Inf(1)
	var b reservations.Bucket
	step := func(at, rate float64, r reservations.Request) (o reservations.Outcome) {
		b, o = reservations.Step(b, limitOf(perSecond("tokens", rate, 10, inf)), clock(at), r)
		return o
	}
	nothing := reservations.Request{Op: settle, Tokens: []float64{0}}
	step(0, 10, reservations.Request{Op: begin, Tokens: []float64{10}})
	first := step(0, 10, reservations.Request{Op: begin, Tokens: []float64{10}})
	var last reservations.Outcome
	for range 9 {
		last = step(0, 10, reservations.Request{Op: begin, Tokens: []float64{10}})
	}
	wait := func(o, now reservations.Outcome) float64 {
		o.At, o.Shift, o.Speed = now.At, now.Shift, now.Speed
		return o.Wait().Seconds()
	}
	for i, c := range []struct{ at, rate, first, last, speed float64 }{
		{.5, 10, .5, 9.5, 1},
		{.5, 100, .05, .95, 10},
		{.5, 1, 5, 95, .1},
		{4.5, 1, 1, 91, .1},
		{4.5, 10, .1, 9.1, 1},
	} {
		o := step(c.at, c.rate, nothing)
		if math.Abs(wait(first, o)-c.first) > 1e-6 || math.Abs(wait(last, o)-c.last) > 1e-6 || math.Abs(o.Speed-c.speed) > 1e-9 {
			t.Fatalf("%d: the first waits %v, the last %v, speed %v; want %+v", i, wait(first, o), wait(last, o), o.Speed, c)
		}
	}
	o := step(4.5, 100, nothing)
	blocked := step(4.5, 100, reservations.Request{Op: block, Tokens: []float64{0}, For: 2 * time.Second})
	if got := wait(first, blocked) - wait(first, o); math.Abs(got-2) > 1e-6 || math.Abs(blocked.Wait().Seconds()-2) > 1e-6 {
		t.Errorf("a block of 2 s sets the first back by %v, and ends in %v", got, blocked.Wait())
	}
	back := step(4.5, 10, nothing) // in the block: nobody comes before it ends
	if got := wait(first, back); math.Abs(got-2.1) > 1e-6 || back.Wait() != 0 {
		t.Errorf("with the old rate the first waits %v, want .1 s behind the block", got)
	}
	if o := step(100, 100, nothing); o.Speed != 1 {
		t.Errorf("nobody waits, and the speed is %v", o.Speed)
	}
}

// At one moment there and back again: no ledger is higher than before. And one way, nothing is there to use that was not, but what a raised window has more.
func TestStepChangeMintsNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		one, two := drawLimit(t, true), drawLimit(t, true)
		b := reservations.Bucket{At: clock(50), Blocked: rapid.SampledFrom([]float64{0, 0, .5, 60}).Draw(t, "blocked"), Shift: 3, Speed: 2}
		for _, m := range one.Meters {
			s := reservations.MeterState{Name: m.Name, Filling: m.Filling()}
			below := m.Cap()
			for i := range s.Ledgers {
				below -= m.Cap() * rapid.SampledFrom([]float64{0, 0, .1, 1, 20}).Draw(t, "below")
				s.Ledgers[i] = below
			}
			b.Meters = append(b.Meters, s)
		}
		at := clock(50 + rapid.SampledFrom([]float64{0, 0, .1, 10}).Draw(t, "seconds"))
		nothing := func(l reservations.Limit) reservations.Request {
			return reservations.Request{Op: check, Tokens: make([]float64, len(l.Meters))}
		}
		before, _ := reservations.Step(b, one, at, nothing(one))
		there, _ := reservations.Step(b, two, at, nothing(two))
		again, _ := reservations.Step(there, one, at, nothing(one))
		wellFormed(t, two, there)
		wellFormed(t, one, again)
		for k := range one.Meters {
			for i, x := range again.Meters[k].Ledgers {
				if x > before.Meters[k].Ledgers[i]+1e-6*max(1, math.Abs(x)) {
					t.Fatalf("ledger %d of %s was %v, is %v", i, one.Meters[k].Name, before.Meters[k].Ledgers[i], x)
				}
			}
			if k < len(two.Meters) && two.Meters[k].Kind != reservations.KindWindow { // when the block ends
				left := before.Blocked
				was := before.Meters[k].Ledgers[0] + left*one.Meters[k].RatePerSecond()
				if one.Meters[k].Kind == reservations.KindWindow {
					was = before.Meters[k].Ledgers[0]
				}
				is := there.Meters[k].Ledgers[0] + left*two.Meters[k].RatePerSecond()
				if is > was+1e-6*max(1, math.Abs(was)) {
					t.Fatalf("use of %s: %v, was %v", one.Meters[k].Name, is, was)
				}
			}
		}
	})
}

func TestStepMaxWait(t *testing.T) {
	t.Parallel()
	l := ten(math.Inf(1))
	l.MaxWait = 2 * time.Second // newcomers may use 1.5 s of it, tickets 1.75 s
	var b reservations.Bucket
	step := func(at float64, s reservations.State, n float64) (o reservations.Outcome) {
		b, o = reservations.Step(b, l, clock(at), reservations.Request{Op: begin, State: s, Tokens: []float64{n}})
		return o
	}
	for i, c := range []struct {
		at    float64
		state reservations.State
		n     float64
		want  reservations.State
		wait  float64
	}{
		{0, fresh, 10, started, 0},
		{0, fresh, 10, reserved, 1},
		{0, fresh, 5, reserved, 1.5},
		{0, fresh, 5, ticket, .55},    // it would start in 2 s
		{0, fresh, 5, ticket, 1.05},   // in 2.5
		{.2, ticket, 5, again, .1},    // much too early: in 1.8 s
		{.3, again, 5, reserved, 1.7}, // now the slack is there for it
		{1, ticket, 5, reserved, 1.5},
	} {
		if o := step(c.at, c.state, c.n); o.State != c.want || math.Abs((o.Wait()+o.Hold).Seconds()-c.wait) > 1e-6 {
			t.Fatalf("%d: %s after %v, want %s after %v", i, o.State, o.Wait(), c.want, c.wait)
		}
	}
}

func TestStepSync(t *testing.T) {
	t.Parallel()
	start := time.Duration(clock(90).UnixNano()) % time.Minute
	for _, c := range []struct {
		name  string
		meter reservations.Meter
		use   float64
		seen  float64
		age   float64
		up    bool
		want  float64
	}{
		{"down", ten(0).Meters[0], 8, 3, 0, false, 3},
		{"not up", ten(0).Meters[0], 3, 8, 0, false, 3},
		{"up, if it may", ten(0).Meters[0], 3, 8, 0, true, 8},
		{"at most to the capacity", ten(0).Meters[0], 3, 800, 0, true, 10},
		{"not known", ten(0).Meters[0], 3, -1, 0, true, 3},
		{"what came back since then counts", ten(0).Meters[0], 8, 3, .2, false, 5},
		{"deeper debt stays", ten(0).Meters[0], -4, 0, 0, false, -4},
		{"window", windowOfSeconds(10, 60, start), 8, 3, 5, false, 3},
		{"window that ended since then", windowOfSeconds(10, 60, start), 8, 3, 15, false, 8},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := bucketOf(c.use, c.use, c.use, c.use, c.use)
			b.Meters[0].Filling = c.meter.Filling()
			got, o := reservations.Step(b, limitOf(c.meter), clock(100), reservations.Request{
				Op: reservations.OpSync, Tokens: []float64{c.seen}, For: time.Duration(c.age * float64(time.Second)), Up: c.up,
			})
			if use := got.Meters[0].Ledgers; math.Abs(use[0]-c.want) > 1e-9 || use[0] != use[4] || o.State != settled {
				t.Errorf("left are %v, want %v; %+v", use, c.want, o)
			}
		})
	}
	// Who waits is set back by what is not there.
	_, o := reservations.Step(bucketOf(2, 2, -20, -20, -20), ten(math.Inf(1)), clock(100), reservations.Request{Op: reservations.OpSync, Tokens: []float64{0}})
	_, same := reservations.Step(bucketOf(2, 2, -20, -20, -20), ten(math.Inf(1)), clock(100), reservations.Request{Op: settle, Tokens: []float64{-2}})
	if diff := cmp.Diff(same, o); diff != "" {
		t.Errorf("sync is not as the settlement (-settle +sync):\n%s", diff)
	}
}

func TestStepSettlesOnce(t *testing.T) {
	t.Parallel()
	var b reservations.Bucket
	l := ten(math.Inf(1))
	step := func(at float64, id int64, x, age float64) float64 {
		b, _ = reservations.Step(b, l, clock(at), reservations.Request{Op: settle, ID: id, Tokens: []float64{x}, For: time.Duration(age * float64(time.Second))})
		return b.Meters[0].Ledgers[0]
	}
	step(0, 0, -1010, 0)
	for i, c := range []struct {
		at   float64
		id   int64
		x    float64
		age  float64
		want float64
	}{
		{0, 7, 100, 0, -900},
		{0, 7, 100, 0, -900}, // once
		{0, 7, -100, 9, -900},
		{0, 8, -100, 0, -1000},
		{0, 0, 100, 0, -900}, // without an ID always
		{0, 0, 100, 0, -800},
		{0, 9, 100, 99, -700}, // late, but the bucket has forgotten none
	} {
		if got := step(c.at, c.id, c.x, c.age); got != c.want {
			t.Fatalf("%d: %v, want %v", i, got, c.want)
		}
	}
	before := b
	for id := int64(100); id < 164; id++ { // 7, 8 and 9 are forgotten
		step(1, id, 0, 0)
	}
	if len(b.Settled) != 64 || !b.Forgot.Equal(clock(1)) || len(before.Settled) != 3 {
		t.Fatalf("%d remembered, forgot at %v, before %v", len(b.Settled), b.Forgot, before.Settled)
	}
	use := b.Meters[0].Ledgers[0]
	if got := step(1, 7, 50, .5); got != use {
		t.Errorf("given back twice: %v, was %v", got, use)
	}
	if got := step(1, 300, -50, .5); got != use-50 {
		t.Errorf("what takes counts: %v, was %v", got, use)
	}
	if got := step(2, 301, 50, .5); math.Abs(got-(use-50+10+50)) > 1e-9 {
		t.Errorf("sent for the first time after that: %v", got)
	}
}
