package reservations_test

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/headway-go/headway/reservations"
)

const (
	begin   = reservations.OpBegin
	reserve = reservations.OpReserve
	check   = reservations.OpCheck
	settle  = reservations.OpSettle
	release = reservations.OpRelease
	take    = reservations.OpTake
	block   = reservations.OpBlock

	fresh    = reservations.StateNew
	ticket   = reservations.StateTicket
	again    = reservations.StateAgain
	reserved = reservations.StateReserved
	late     = reservations.StateLate
	started  = reservations.StateStarted
	refused  = reservations.StateRefused
	settled  = reservations.StateSettled
)

// ask is a moment of a table: at a second of the virtual clock the bucket is asked, and answers with a state and the seconds to wait
// (the hold of those that start).
type ask struct {
	at     float64
	op     reservations.Op
	state  reservations.State
	tokens float64
	want   reservations.State
	wait   float64
}

// ten is 10 tokens a second with a capacity of 10.
func ten(maxReserved float64) reservations.Limit {
	return limitOf(perSecond("tokens", 10, 10, maxReserved))
}

func TestStepMoments(t *testing.T) {
	t.Parallel()
	inf := math.Inf(1)
	for _, c := range []struct {
		name  string
		limit reservations.Limit
		asks  []ask
	}{
		{"starts while there is room", ten(inf), []ask{
			{0, begin, fresh, 10, started, 0},
			{1, begin, fresh, 4, started, 0},
			{1, begin, fresh, 6, started, 0},
		}},
		{"the zero state is new", ten(inf), []ask{
			{0, begin, "", 10, started, 0},
			{0, begin, "", 5, reserved, .5},
		}},
		{"a state nobody may ask with is new", ten(inf), []ask{
			{0, begin, started, 10, started, 0},
			{0, begin, settled, 5, reserved, .5},
			{0, begin, "from the future", 5, reserved, 1},
		}},
		{"short by at most Hold starts and holds", ten(inf), []ask{
			{0, begin, fresh, 10, started, 0},
			{0, begin, fresh, 2.5, started, .25},
			{0, begin, fresh, .1, reserved, .26},
		}},
		{"a charge of nothing starts when nobody is owed", ten(inf), []ask{
			{0, begin, fresh, 10, started, 0},
			{0, begin, fresh, 0, started, 0},
			{0, begin, fresh, 10, reserved, 1},
			{0, begin, fresh, 0, reserved, 1},
		}},
		{"no capacity means one period's worth", limitOf(reservations.Meter{Name: "tokens", Rate: 600, Period: time.Minute, MaxReserved: reservations.Unlimited}), []ask{
			{0, begin, fresh, 600, started, 0},
			{0, begin, fresh, 10, reserved, 1},
		}},
		{"reserved comes back when due and starts", ten(inf), []ask{
			{0, begin, fresh, 10, started, 0},
			{0, begin, fresh, 5, reserved, .5},
			{0, begin, fresh, 5, reserved, 1},
			{.5, begin, reserved, 5, started, 0},
			{1, begin, reserved, 5, started, 0},
			{1, begin, fresh, 5, reserved, .5},
		}},
		{"reserved comes back a little early and holds", ten(inf), []ask{
			{0, begin, fresh, 10, started, 0},
			{0, begin, fresh, 10, reserved, 1},
			{.8, begin, reserved, 10, started, .2},
		}},
		{"reserved comes back far too early and is late, once", ten(inf), []ask{
			{0, begin, fresh, 10, started, 0},
			{0, begin, fresh, 10, reserved, 1},
			{.5, begin, reserved, 10, late, .5},
			{.5, begin, late, 10, late, 1.5}, // and one that comes back too early again loses its place
			{1, begin, late, 10, started, 0},
		}},
		{"late ones start before those on time", ten(inf), []ask{
			{0, begin, fresh, 10, started, 0},
			{0, begin, fresh, 10, reserved, 1},
			{0, begin, fresh, 10, reserved, 2},
			{5, begin, reserved, 10, started, 0}, // the fleet was down
			{5, begin, reserved, 10, late, 1},
			{5.5, begin, fresh, 1, reserved, .6},
			{6, begin, late, 10, started, 0},
		}},
		{"reserve gives a time and never the right to start", ten(inf), []ask{
			{0, reserve, fresh, 4, reserved, 0},
			{0, reserve, fresh, 10, reserved, .4},
			{0, begin, reserved, 4, started, 0},
			{.4, begin, reserved, 10, started, 0},
		}},
		{"a take is now or not", ten(inf), []ask{
			{0, take, fresh, 8, started, 0},
			{0, take, fresh, 3, refused, .1}, // no Hold
			{0, take, fresh, 2, started, 0},
			{.1, take, fresh, 2, refused, .1},
			{.2, take, fresh, 2, started, 0},
			{.2, begin, fresh, 10, reserved, 1},
			{.2, take, fresh, 0, refused, 1}, // behind who waits
			{.2, begin, fresh, 1, reserved, 1.1},
		}},
		{"behind max_reserved there are tickets", ten(10), []ask{ // newcomers leave 2 x 2.5 to those who come back
			{0, begin, fresh, 10, started, 0},
			{0, begin, fresh, 5, reserved, .5},
			{0, begin, fresh, 5, ticket, .5 + .05},
			{.55, begin, ticket, 5, reserved, .45},
		}},
		{"reserve behind max_reserved gives a ticket", ten(0), []ask{
			{0, reserve, fresh, 10, reserved, 0},
			{0, reserve, fresh, 1, ticket, .1 + .05},
		}},
		{"no max_reserved: a ticket comes back and starts", ten(0), []ask{
			{0, begin, fresh, 10, started, 0},
			{0, begin, fresh, 5, ticket, .5 + .05},
			{0, begin, fresh, 5, ticket, 1 + .05},
			{.55, begin, ticket, 5, started, 0},
			{1.05, begin, ticket, 5, started, 0},
		}},
		{"a ticket refused by the plan stays before newer ones", ten(0), []ask{
			{0, begin, fresh, 10, started, 0},
			{0, begin, fresh, 10, ticket, 1.05},
			{0, begin, fresh, 10, ticket, 2.05},
			{9, begin, ticket, 10, started, 0}, // the fleet was down
			{9, begin, ticket, 10, again, 1.05},
			{9, begin, fresh, 10, ticket, 2.05},
			{10.05, begin, again, 10, started, 0},
			{11.05, begin, ticket, 10, started, 0},
		}},
		{"again may come back too early, and loses its place", ten(0), []ask{
			{0, begin, fresh, 10, started, 0},
			{0, begin, ticket, 10, again, 1.05},
			{.5, begin, again, 10, again, 1.55},
		}},
		{"above the capacity a full bucket starts it and owes", limitOf(perSecond("tokens", 10, 10, 20)), []ask{
			{0, begin, fresh, 30, started, 0},
			{0, begin, fresh, 5, ticket, 2.5 - (2 - .5) + .05},
			{2, begin, late, 1, started, .1},
		}},
		{"above the capacity waits for a full bucket", ten(inf), []ask{
			{0, begin, fresh, 5, started, 0},
			{0, begin, fresh, 15, reserved, .5},
			{0, begin, fresh, 1, reserved, 1.1},
			{.5, begin, reserved, 15, started, 0},
			{1.1, begin, reserved, 1, started, 0},
		}},
		{"time that runs back by less than a minute changes nothing", ten(inf), []ask{
			{100, begin, fresh, 10, started, 0},
			{41, begin, fresh, 5, reserved, .5}, // decided at 100
			{100.5, begin, reserved, 5, started, 0},
		}},
		{"time that runs back by more is followed, and grants nothing", ten(inf), []ask{
			{100, begin, fresh, 10, started, 0},
			{39, begin, fresh, 5, reserved, .5}, // decided at 39
			{39.5, begin, reserved, 5, started, 0},
			{39.5, begin, fresh, 1, started, .1},
		}},
		{"a huge wait is bounded", limitOf(reservations.Meter{Name: "tokens", Rate: 1e-9, Period: time.Hour, Capacity: 1, MaxReserved: reservations.Unlimited}), []ask{
			{0, begin, fresh, 1e12, started, 0},
			{0, begin, fresh, 1, reserved, reservations.MaxWait.Seconds()},
			{0, begin, reserved, 1, late, reservations.MaxWait.Seconds()},
		}},
		{"what is settled is there for the next", ten(inf), []ask{
			{0, begin, fresh, 10, started, 0},
			{0, settle, "", 6, settled, 0},
			{0, begin, fresh, 6, started, 0},
			{0, settle, "", -6, settled, 0},
			{0, begin, fresh, 1, reserved, .7},
		}},
		{"a settlement never fills above the capacity", ten(inf), []ask{
			{0, settle, "", 100, settled, 0},
			{0, begin, fresh, 10, started, 0},
			{0, begin, fresh, 1, started, .1},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var b reservations.Bucket
			for i, a := range c.asks {
				var o reservations.Outcome
				b, o = reservations.Step(b, c.limit, clock(a.at), reservations.Request{Op: a.op, State: a.state, Tokens: []float64{a.tokens}})
				if wait := (o.Hold + o.Wait()).Seconds(); o.State != a.want || math.Abs(wait-a.wait) > 1e-8 {
					t.Fatalf("ask %d: %s after %v s, want %s after %v s", i, o.State, wait, a.want, a.wait)
				}
				if o.At != b.At || o.Version != int64(i+1) || o.Generation != clock(c.asks[0].at).UnixMilli() {
					t.Fatalf("ask %d: %+v is not of the bucket %+v", i, o, b)
				}
				if (o.Hold != 0 && !o.Started()) || o.Due.IsZero() != (o.Started() || o.State == settled) {
					t.Fatalf("ask %d: hold and due must go with the state: %+v", i, o)
				}
			}
		})
	}
}

// A task waits for the meter that has room last, and takes its place in all of them.
func TestStepSeveralMeters(t *testing.T) {
	t.Parallel()
	l := limitOf(perSecond("requests", 1, 2, math.Inf(1)), perSecond("tokens", 100, 100, math.Inf(1)))
	var b reservations.Bucket
	for i, a := range []struct {
		at               float64
		state            reservations.State
		requests, tokens float64
		want             reservations.State
		wait             float64
	}{
		{0, fresh, 1, 100, started, 0},
		{0, fresh, 1, 50, reserved, .5},
		{0, fresh, 1, 10, reserved, 1},
		{.5, reserved, 1, 50, started, 0},
		{1, reserved, 1, 10, started, 0},
		{1, fresh, 0, 100, reserved, .6},
	} {
		var o reservations.Outcome
		b, o = reservations.Step(b, l, clock(a.at), reservations.Request{Op: begin, State: a.state, Tokens: []float64{a.requests, a.tokens}})
		if wait := (o.Hold + o.Wait()).Seconds(); o.State != a.want || math.Abs(wait-a.wait) > 1e-8 {
			t.Fatalf("ask %d: %s after %v s, want %s after %v s", i, o.State, wait, a.want, a.wait)
		}
	}
}

// filledBy is how a token bucket fills.
func filledBy(rate, capacity float64) reservations.Filling {
	return reservations.Filling{Rate: rate, Capacity: capacity}
}

// bucketOf is a bucket at second 100 with these balances in its only meter.
func bucketOf(ledgers ...float64) reservations.Bucket {
	b := reservations.Bucket{At: clock(100), Generation: 7, Version: 41, Speed: 1, Owed: []float64{0}}
	b.Meters = []reservations.MeterState{{Name: "tokens", Ledgers: [reservations.LedgerCount]float64(ledgers), Filling: filledBy(10, 10)}}
	return b
}

// What a settlement or a release does to the ledgers use, late, plan, again, line of 10 tokens a second, and to the clock of the line.
func TestStepLedgers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		op      reservations.Op
		state   reservations.State
		tokens  float64
		before  []float64
		carried float64
		after   []float64
		shift   float64
		carry   float64
	}{
		{"settle gives, nobody waits", settle, "", 3, []float64{4, 4, 4, 4, 4}, .1, []float64{7, 7, 7, 7, 7}, 0, 0},
		{"settle takes, nobody waits", settle, "", -6, []float64{4, 4, 4, 4, 4}, .1, []float64{-2, -2, -2, -2, -2}, 0, 0},
		{"settle gives up to the capacity", settle, "", 3, []float64{9, 8, 4, 4, 4}, 0, []float64{10, 10, 7, 7, 7}, 0, 0},
		{"settle gives, and the line moves on", settle, "", 3, []float64{0, 0, -20, -20, -20}, 0, []float64{3, 3, -17, -17, -17}, .3, 0},
		{"settle gives, and the line moves as far as there is room", settle, "", 3, []float64{0, -1, -20, -20, -20}, 0, []float64{3, 2, -18, -18, -18}, .2, .1},
		{"what was kept moves the line later", settle, "", 3, []float64{5, 5, -20, -20, -20}, .1, []float64{8, 8, -16, -16, -16}, .4, 0},
		{"what is kept is at most Hold", settle, "", 9, []float64{0, -9, -20, -20, -20}, .2, []float64{9, 0, -20, -20, -20}, 0, .25},
		{"the late stand in the way", settle, "", 1, []float64{0, -5, -20, -20, -20}, 0, []float64{1, -4, -20, -20, -20}, 0, .1},
		{"settle takes what is there, and the line stays", settle, "", -2, []float64{3, 3, -20, -20, -20}, 0, []float64{1, 1, -20, -20, -20}, 0, 0},
		{"settle takes more, and the line moves back", settle, "", -5, []float64{3, 3, -20, -20, -20}, 0, []float64{-2, -2, -22, -22, -22}, -.2, 0},
		{"settle takes from a debt", settle, "", -5, []float64{-1, -1, -20, -20, -20}, .1, []float64{-6, -6, -25, -25, -25}, -.5, .1},

		{"release of a ticket", release, ticket, 3, []float64{1, 1, -9, -9, -20}, .1, []float64{1, 1, -9, -9, -17}, 0, .1},
		{"release of again", release, again, 3, []float64{1, 1, -9, -15, -20}, 0, []float64{1, 1, -9, -12, -17}, 0, 0},
		{"release of reserved", release, reserved, 3, []float64{1, 1, -9, -15, -20}, 0, []float64{1, 1, -6, -12, -17}, 0, 0},
		{"release of late", release, late, 3, []float64{1, -5, -9, -15, -20}, 0, []float64{1, -2, -6, -12, -17}, 0, 0},
		{"release never rises above what started", release, late, 9, []float64{1, -5, -9, -15, -20}, 0, []float64{1, 1, 0, -6, -11}, 0, 0},
		{"release of new holds nothing", release, fresh, 3, []float64{1, 1, -9, -9, -9}, 0, []float64{1, 1, -9, -9, -9}, 0, 0},
		{"release of started holds nothing", release, started, 3, []float64{1, 1, -9, -9, -9}, 0, []float64{1, 1, -9, -9, -9}, 0, 0},
		{"release of settled holds nothing", release, settled, 3, []float64{1, 1, -9, -9, -9}, 0, []float64{1, 1, -9, -9, -9}, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			before := bucketOf(c.before...)
			before.Shift, before.Carry = 1, c.carried
			got, o := reservations.Step(before, ten(math.Inf(1)), clock(100), reservations.Request{Op: c.op, State: c.state, Tokens: []float64{c.tokens}})
			want := bucketOf(c.after...)
			want.Shift, want.Carry, want.Version, want.Owed = 1+c.shift, c.carry, 42, got.Owed
			if diff := cmp.Diff(want, got, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
				t.Errorf("bucket (-want +got):\n%s", diff)
			}
			if o.State != settled || o.Wait() != 0 || o.Generation != 7 || o.Version != 42 || math.Abs(o.Shift.Seconds()-want.Shift) > 1e-8 {
				t.Errorf("outcome %+v", o)
			}
		})
	}
}

// Where requests are scarce, tokens that come back do not move the line; they are kept, up to Hold.
func TestStepSettleMovesAsFarAsEveryMeter(t *testing.T) {
	t.Parallel()
	l := limitOf(perSecond("requests", 1, 1, math.Inf(1)), perSecond("tokens", 100, 100, math.Inf(1)))
	b := reservations.Bucket{At: clock(0), Meters: []reservations.MeterState{
		{Name: "requests", Ledgers: [5]float64{.1, .1, -5, -5, -5}},
		{Name: "tokens", Ledgers: [5]float64{-10, -10, -10, -10, -10}},
	}}
	b, o := reservations.Step(b, l, clock(0), reservations.Request{Op: settle, Tokens: []float64{0, 60}})
	if math.Abs(o.Shift.Seconds()-.1) > 1e-8 || b.Carry != reservations.Hold.Seconds() {
		t.Errorf("shift %v, carry %v: want .1 (all that requests allow) and Hold", o.Shift, b.Carry)
	}
	if got := b.Meters[1].Ledgers; math.Abs(got[reservations.LedgerUse]-50) > 1e-9 || math.Abs(got[reservations.LedgerPlan]-0) > 1e-9 {
		t.Errorf("tokens are %v: want 50 to use, and the plan moved by .1 s", got)
	}
}

// Due is on the clock of the line: a settlement brings everybody back sooner without a delivery.
func TestStepShiftWakesSooner(t *testing.T) {
	t.Parallel()
	l := ten(math.Inf(1))
	var b reservations.Bucket
	step := func(at float64, r reservations.Request) (o reservations.Outcome) {
		b, o = reservations.Step(b, l, clock(at), r)
		return o
	}
	step(0, reservations.Request{Op: begin, Tokens: []float64{10}})
	waits := step(0, reservations.Request{Op: begin, Tokens: []float64{10}})
	o := step(.5, reservations.Request{Op: settle, Tokens: []float64{3}})
	if wake := waits.Due.Add(-o.Shift); wake != clock(.7) {
		t.Errorf("wakes at %v, want .3 s before its first second", wake.Sub(virtualStart))
	}
	if next := step(.5, reservations.Request{Op: begin, Tokens: []float64{10}}); next.Wait() != 1200*time.Millisecond || next.Due != clock(2) {
		t.Errorf("the next waits %v until %v of the line, want 1.2 s until 2", next.Wait(), next.Due.Sub(virtualStart))
	}
	if o := step(.7, reservations.Request{Op: begin, State: reserved, Tokens: []float64{10}}); !o.Started() || o.Hold > time.Microsecond {
		t.Errorf("at its time it gets %+v", o)
	}
}

// When the clock runs back by more than a minute, those who wait are woken after what was left of their wait.
func TestStepClockOfTheLineFollowsBack(t *testing.T) {
	t.Parallel()
	l := ten(math.Inf(1))
	var b reservations.Bucket
	step := func(at float64, r reservations.Request) (o reservations.Outcome) {
		b, o = reservations.Step(b, l, clock(at), r)
		return o
	}
	step(100, reservations.Request{Op: begin, Tokens: []float64{10}})
	waits := step(100, reservations.Request{Op: begin, Tokens: []float64{20}})
	o := step(30, reservations.Request{Op: check, Tokens: []float64{0}})
	if wake := waits.Due.Add(-o.Shift); wake != clock(31) {
		t.Errorf("wakes at %v, want a second after the clock ran back", wake.Sub(virtualStart))
	}
	if o := step(31, reservations.Request{Op: begin, State: reserved, Tokens: []float64{20}}); !o.Started() || o.Hold > time.Microsecond {
		t.Errorf("at its time it gets %+v", o)
	}
}

// A refused take is told the earliest time at which it would be accepted, and accepted then.
func TestStepTakeAtItsTime(t *testing.T) {
	t.Parallel()
	for _, rate := range []float64{1e-5, .3, 7, 1e3, 4e6} {
		l := limitOf(perSecond("tokens", rate, 3*rate, math.Inf(1)))
		b, _ := reservations.Step(reservations.Bucket{}, l, clock(.123), reservations.Request{Op: take, Tokens: []float64{3 * rate}})
		for i := range 100 {
			n := []float64{rate * float64(i%7) / 2.3}
			before, o := reservations.Step(b, l, clock(.123+float64(i)), reservations.Request{Op: take, Tokens: n})
			if b = before; o.Started() {
				continue
			}
			_, early := reservations.Step(b, l, o.At.Add(o.Wait()-time.Microsecond), reservations.Request{Op: take, Tokens: n})
			_, then := reservations.Step(b, l, o.At.Add(o.Wait()), reservations.Request{Op: take, Tokens: n})
			if o.State != refused || early.State != refused || !then.Started() {
				t.Fatalf("%v a second, ask %d: %+v, a microsecond before its time %+v, and then %+v", rate, i, o, early, then)
			}
		}
	}
}

func TestStepCheckChangesNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		tokens float64
		want   reservations.State
	}{{1, started}, {3, started}, {9, reserved}} {
		before := bucketOf(1, 1, 1, 1, 1)
		after, o := reservations.Step(before, ten(math.Inf(1)), clock(100), reservations.Request{Op: check, Tokens: []float64{c.tokens}})
		if o.State != c.want {
			t.Errorf("check of %v says %s, want %s", c.tokens, o.State, c.want)
		}
		if diff := cmp.Diff(before.Meters, after.Meters); diff != "" || after.Shift != 0 || after.Carry != 0 {
			t.Errorf("check of %v changed the bucket (-before +after):\n%s", c.tokens, diff)
		}
		_, same := reservations.Step(before, ten(math.Inf(1)), clock(100), reservations.Request{Op: begin, Tokens: []float64{c.tokens}})
		if diff := cmp.Diff(same, o); diff != "" {
			t.Errorf("check does not answer as begin (-begin +check):\n%s", diff)
		}
	}
}

// A meter that is new to the bucket starts full; one that the limit no longer has stands idle; their order does not matter.
func TestStepMetersChange(t *testing.T) {
	t.Parallel()
	before := bucketOf(1, 1, 1, 1, 1)
	both := limitOf(perSecond("requests", 5, 5, math.Inf(1)), perSecond("tokens", 10, 10, math.Inf(1)))
	b, o := reservations.Step(before, both, clock(100), reservations.Request{Op: begin, Tokens: []float64{2, 1}})
	want := []reservations.MeterState{{Name: "requests", Ledgers: [5]float64{3, 3, 3, 3, 3}, Filling: filledBy(5, 5)}, {Name: "tokens", Filling: filledBy(10, 10)}}
	if diff := cmp.Diff(want, b.Meters); diff != "" || !o.Started() {
		t.Errorf("added: %s (-want +got):\n%s", o.State, diff)
	}
	only := limitOf(perSecond("requests", 5, 5, math.Inf(1)))
	b, o = reservations.Step(b, only, clock(100), reservations.Request{Op: begin, Tokens: []float64{2}})
	want = []reservations.MeterState{{Name: "requests", Ledgers: [5]float64{1, 1, 1, 1, 1}, Filling: filledBy(5, 5)}}
	if diff := cmp.Diff(want, b.Meters); diff != "" || !o.Started() {
		t.Errorf("dropped: %s (-want +got):\n%s", o.State, diff)
	}
	lower := limitOf(perSecond("requests", 5, .5, math.Inf(1)))
	if b, _ = reservations.Step(b, lower, clock(100), reservations.Request{Op: check, Tokens: []float64{0}}); b.Meters[0].Ledgers[0] != .5 {
		t.Errorf("a capacity that was lowered leaves %v", b.Meters[0].Ledgers)
	}
}

func TestBucketFullAt(t *testing.T) {
	t.Parallel()
	l := ten(math.Inf(1))
	for _, c := range []struct {
		bucket reservations.Bucket
		want   time.Time
	}{
		{reservations.Bucket{}, time.Time{}},
		{bucketOf(10, 10, 10, 10, 10), clock(100)},
		{bucketOf(9, 9, 9, 9, 9), clock(100.1)},
		{reservations.Bucket{At: clock(100), Keep: clock(107)}, clock(107)},
		{bucketOf(10, 10, 10, 0, -50), clock(106)},
		{bucketOf(0, 0, 0, 0, -1e300), clock(100).Add(reservations.MaxWait)},
	} {
		if got := c.bucket.FullAt(l); !got.Equal(c.want) {
			t.Errorf("%v is full at %v, want %v", c.bucket, got, c.want)
		}
	}
}

func TestOutcomeWait(t *testing.T) {
	t.Parallel()
	o := reservations.Outcome{State: reserved, At: clock(10), Due: clock(15), Shift: 2 * time.Second, Generation: 3}
	if o.Wait() != 3*time.Second {
		t.Errorf("waits %v", o.Wait())
	}
	if want := (reservations.Place{State: reserved, Due: clock(15), Generation: 3}); o.Place() != want {
		t.Errorf("place %+v", o.Place())
	}
	o.Shift = time.Hour
	if o.Wait() != 0 {
		t.Errorf("overdue waits %v", o.Wait())
	}
}
