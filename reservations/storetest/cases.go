package storetest

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/headway-go/headway/reservations"
)

const (
	ms         = time.Millisecond
	tolerated  = ms // between times
	noMoreThan = 1e-6
)

func oneMeter(rate, capacity, maxReserved float64) reservations.Limit {
	return reservations.Limit{Name: "limit", Meters: []reservations.Meter{
		{Name: "m", Rate: rate, Period: time.Second, Capacity: capacity, MaxReserved: maxReserved},
	}}
}

func begin(n ...float64) reservations.Request {
	return reservations.Request{Op: reservations.OpBegin, State: reservations.StateNew, Tokens: n}
}

func as(s reservations.State, n ...float64) reservations.Request {
	return reservations.Request{Op: reservations.OpBegin, State: s, Tokens: n}
}

func ask(op reservations.Op, n ...float64) reservations.Request {
	return reservations.Request{Op: op, Tokens: n}
}

// driver asks one bucket of an instance.
type driver struct {
	t     *testing.T
	i     Instance
	limit reservations.Limit
	key   string
}

func (d driver) apply(requests ...reservations.Request) []reservations.Outcome {
	d.t.Helper()
	outcomes, err := d.i.Store.Apply(d.t.Context(), d.limit, d.key, requests)
	if err != nil {
		d.t.Fatalf("apply %d requests: %v", len(requests), err)
	}
	if len(outcomes) != len(requests) {
		d.t.Fatalf("%d requests brought %d outcomes", len(requests), len(outcomes))
	}
	return outcomes
}

func (d driver) one(r reservations.Request) reservations.Outcome {
	d.t.Helper()
	return d.apply(r)[0]
}

// wantStart expects o to start after hold.
func (d driver) wantStart(o reservations.Outcome, hold time.Duration) {
	d.t.Helper()
	if !o.Started() || !near(o.Hold, hold) {
		d.t.Fatalf("got %s, hold %v, wait %v; want to start after %v", o.State, o.Hold, o.Wait(), hold)
	}
}

// wantWait expects o to be given state s and to come back in wait.
func (d driver) wantWait(o reservations.Outcome, s reservations.State, wait time.Duration) {
	d.t.Helper()
	if o.State != s || !near(o.Wait(), wait) {
		d.t.Fatalf("got %s, wait %v, hold %v; want %s, wait %v", o.State, o.Wait(), o.Hold, s, wait)
	}
}

func near(a, b time.Duration) bool { return (a - b).Abs() <= tolerated }

func testMoments(d driver) {
	d.limit = oneMeter(10, 5, reservations.Unlimited)
	first := d.one(begin(5))
	d.wantStart(first, 0) // a bucket that is not there is full
	if first.Generation == 0 || first.Version != 1 || first.Shift != 0 || !first.Due.IsZero() {
		d.t.Fatalf("first outcome is %+v", first)
	}
	d.wantStart(d.one(begin(2)), 200*ms) // short by less than Hold
	d.wantWait(d.one(begin(1)), reservations.StateReserved, 300*ms)
	d.wantWait(d.one(begin(2)), reservations.StateReserved, 500*ms)
	d.i.Advance(300 * ms)
	at := d.one(as(reservations.StateReserved, 1))
	d.wantStart(at, 0)
	if got := at.At.Sub(first.At); got != 300*ms {
		d.t.Errorf("the store's clock went on by %v, want 300ms", got)
	}
	d.i.Advance(time.Hour)
	d.wantStart(d.one(begin(5)), 0) // never more than the capacity
	d.wantWait(d.one(begin(4)), reservations.StateReserved, 400*ms)
}

func testBatch(d driver) {
	d.limit = oneMeter(10, 5, reservations.Unlimited)
	got := d.apply(begin(5), begin(3), ask(reservations.OpSettle, 1), begin(4), begin(1))
	d.wantStart(got[0], 0)
	d.wantWait(got[1], reservations.StateReserved, 300*ms)
	if got[2].State != reservations.StateSettled || got[2].Shift <= 0 {
		d.t.Fatalf("the settlement is %+v, want a shift: somebody waits", got[2])
	}
	d.wantWait(got[3], reservations.StateReserved, 600*ms)
	d.wantWait(got[4], reservations.StateReserved, 700*ms)
	for k, o := range got {
		if o.Version != int64(k+1) || o.Generation != got[0].Generation || !o.At.Equal(got[0].At) {
			d.t.Errorf("outcome %d: version %d, generation %d, at %v", k, o.Version, o.Generation, o.At)
		}
	}
}

func testEmptyBatch(d driver) {
	d.limit = oneMeter(10, 5, 0)
	d.apply()
	d.wantStart(d.one(begin(5)), 0)
}

func testSeveralMeters(d driver) {
	limit := reservations.Limit{Name: "limit", Meters: []reservations.Meter{
		{Name: "requests", Rate: 10, Period: time.Second, Capacity: 10, MaxReserved: reservations.Unlimited},
		{Name: "tokens", Rate: 6000, Period: time.Minute, Capacity: 1000, MaxReserved: 500},
	}}
	d.limit = limit
	d.wantStart(d.one(begin(1, 900)), 0)
	d.wantWait(d.one(begin(1, 200)), reservations.StateReserved, time.Second) // tokens are short
	d.wantWait(d.one(begin(1, 500)), reservations.StateTicket, 1550*ms)       // 600 owed, newcomers may owe 450: two slacks of 25 less
	d.wantWait(d.one(begin(12, 0)), reservations.StateTicket, 1550*ms)        // behind that ticket, although it needs no tokens
}

func testReserve(d driver) {
	d.limit = oneMeter(10, 5, 20)
	d.wantWait(d.one(ask(reservations.OpReserve, 3)), reservations.StateReserved, 0) // a time, not the right to start
	d.wantWait(d.one(ask(reservations.OpReserve, 3)), reservations.StateReserved, 100*ms)
	d.i.Advance(100 * ms)
	d.wantStart(d.one(as(reservations.StateReserved, 3)), 0)
	d.wantStart(d.one(as(reservations.StateReserved, 3)), 100*ms) // the first came late: what the full bucket could not hold is lost
	d.key, d.limit = "rounding", oneMeter(1e-7, 1, 0.3)           // two slacks of 2.5e-8 less, which is within the tolerance
	d.wantStart(d.one(begin(1)), 0)
	if o := d.one(begin(0.3)); o.State != reservations.StateReserved {
		d.t.Errorf("all of max_reserved brings %s; a millionth of a token is given for rounding", o.State)
	}
}

func testTickets(d driver) {
	d.limit = oneMeter(10, 5, 0)
	d.wantStart(d.one(begin(5)), 0)
	d.wantWait(d.one(begin(5)), reservations.StateTicket, 550*ms)
	d.wantWait(d.one(begin(5)), reservations.StateTicket, 1050*ms)
	d.i.Advance(400 * ms)
	d.wantStart(d.one(as(reservations.StateTicket, 5)), 100*ms)
	d.wantWait(d.one(as(reservations.StateTicket, 5)), reservations.StateAgain, 650*ms)
	d.i.Advance(600 * ms)
	d.wantStart(d.one(as(reservations.StateAgain, 5)), 0)
}

func testLate(d driver) {
	d.limit = oneMeter(10, 5, reservations.Unlimited)
	d.apply(begin(5), begin(5), begin(5)) // at 0, 500 ms, 1 s
	d.i.Advance(time.Minute)              // nobody was there; both are back at once
	d.wantStart(d.one(as(reservations.StateReserved, 5)), 0)
	d.wantWait(d.one(as(reservations.StateReserved, 5)), reservations.StateLate, 500*ms)
	d.wantWait(d.one(begin(1)), reservations.StateReserved, 600*ms) // newcomers stay behind
	d.i.Advance(500 * ms)
	d.wantStart(d.one(as(reservations.StateLate, 5)), 0)
}

func testCheck(d driver) {
	d.limit = oneMeter(10, 5, 0)
	for range 3 {
		d.wantStart(d.one(ask(reservations.OpCheck, 5)), 0)
	}
	got := d.apply(begin(5), ask(reservations.OpCheck, 5), ask(reservations.OpCheck, 5))
	d.wantWait(got[1], reservations.StateTicket, 550*ms)
	d.wantWait(got[2], reservations.StateTicket, 550*ms)
}

// A take starts or leaves the bucket as it was, and at the time it is told it starts.
func testTake(d driver) {
	d.limit = oneMeter(10, 5, 0)
	take := ask(reservations.OpTake, 3)
	dry := take
	dry.Dry = true
	d.wantStart(d.one(dry), 0)
	d.wantStart(d.one(take), 0)
	for range 3 {
		o := d.one(take)
		d.wantWait(o, reservations.StateRefused, 100*ms) // no Hold
		d.wantWait(d.one(dry), reservations.StateRefused, 100*ms)
	}
	d.i.Advance(99 * ms)
	d.wantWait(d.one(take), reservations.StateRefused, ms)
	d.i.Advance(ms)
	d.wantStart(d.one(take), 0)
	d.wantWait(d.one(begin(5)), reservations.StateTicket, 550*ms)
	d.wantWait(d.one(ask(reservations.OpTake, 0)), reservations.StateRefused, 500*ms) // behind who waits
}

func testDry(d driver) {
	d.limit = oneMeter(10, 5, reservations.Unlimited)
	dry := func(r reservations.Request) reservations.Request {
		r.Dry = true
		return r
	}
	d.apply(begin(5))
	for range 2 {
		d.wantStart(d.one(dry(begin(2))), 200*ms)
		d.wantWait(d.one(dry(begin(5))), reservations.StateReserved, 500*ms)
		d.wantWait(d.one(dry(as(reservations.StateReserved, 5))), reservations.StateLate, 500*ms)
		d.wantWait(d.one(dry(ask(reservations.OpReserve, 1))), reservations.StateReserved, 100*ms)
	}
	d.apply(dry(ask(reservations.OpSettle, 5)), dry(reservations.Request{Op: reservations.OpRelease, State: reservations.StateNew, Tokens: []float64{5}}))
	d.wantStart(d.one(begin(5)), 0) // a settlement does not look at it
}

func testSettle(d driver) {
	d.limit = oneMeter(10, 5, reservations.Unlimited)
	got := d.apply(begin(5), ask(reservations.OpSettle, 3), begin(3), ask(reservations.OpSettle, -1), begin(1))
	d.wantStart(got[2], 0)
	d.wantStart(got[4], 200*ms)
	d.apply(ask(reservations.OpSettle, 1000))
	d.wantStart(d.one(begin(5)), 0)
	d.wantWait(d.one(begin(4)), reservations.StateReserved, 400*ms) // what is above the capacity is lost
}

func testSettleMovesLine(d driver) {
	d.limit = oneMeter(10, 5, reservations.Unlimited)
	got := d.apply(begin(5), begin(5), ask(reservations.OpSettle, 2), ask(reservations.OpSettle, -2))
	if due := got[1].Due.Sub(got[1].At); !near(due, 500*ms) {
		d.t.Fatalf("due in %v, want 500ms", due)
	}
	if !near(got[2].Shift, 200*ms) || got[3].Shift > got[2].Shift {
		d.t.Errorf("shift is %v after 2 tokens came back, %v after 2 more were taken", got[2].Shift, got[3].Shift)
	}
}

func testRelease(d driver) {
	d.limit = oneMeter(10, 5, reservations.Unlimited)
	d.apply(begin(5))
	d.wantWait(d.one(begin(5)), reservations.StateReserved, 500*ms)
	released := d.one(reservations.Request{Op: reservations.OpRelease, State: reservations.StateReserved, Tokens: []float64{5}})
	if released.State != reservations.StateSettled {
		d.t.Errorf("a release brings %s", released.State)
	}
	d.wantWait(d.one(begin(5)), reservations.StateReserved, 500*ms) // the place is free again, not the tokens
	for _, s := range []reservations.State{reservations.StateNew, reservations.StateStarted, reservations.StateSettled} {
		d.apply(reservations.Request{Op: reservations.OpRelease, State: s, Tokens: []float64{5}}) // hold nothing
	}
	d.wantWait(d.one(ask(reservations.OpCheck, 5)), reservations.StateReserved, time.Second)
}

// A start that is given back starts before all others that wait, and nobody is brought forward by it.
func testYield(d driver) {
	d.limit = oneMeter(10, 5, reservations.Unlimited)
	d.apply(begin(5))
	d.wantWait(d.one(begin(5)), reservations.StateReserved, 500*ms)
	yielded := d.one(reservations.Request{Op: reservations.OpYield, Tokens: []float64{5}})
	if yielded.State != reservations.StateSettled || yielded.Shift != 0 {
		d.t.Errorf("a start given back brings %+v", yielded)
	}
	d.wantWait(d.one(begin(5)), reservations.StateReserved, time.Second) // newcomers have nothing of it
	late := begin(5)
	late.State = reservations.StateReserved
	d.wantWait(d.one(late), reservations.StateLate, 500*ms) // nor has who comes back before its time
	late.State = reservations.StateLate
	if o := d.one(late); !o.Started() || o.Hold != 0 {
		d.t.Errorf("who gave its start back comes back to %+v", o)
	}
}

// Who stands first and comes too late, since nobody stands in front of it any more, comes when there is room for it, with all behind it.
func testAdvance(d driver) {
	d.limit = oneMeter(10, 5, reservations.Unlimited)
	waits := d.apply(begin(5), begin(5), begin(5), begin(5))[1:]
	d.apply(reservations.Request{Op: reservations.OpRelease, State: reservations.StateReserved, Tokens: []float64{5}}) // the first of them
	advance := func(generation int64, most, want time.Duration) {
		d.t.Helper()
		o := d.one(reservations.Request{Op: reservations.OpAdvance, Due: waits[1].Due, Generation: generation, For: most, Tokens: []float64{5}})
		if o.Shift.Round(ms) != want || o.State != reservations.StateSettled {
			d.t.Errorf("the line is moved by %v, want %v: %+v", o.Shift, want, o)
		}
	}
	generation := waits[1].Generation
	advance(generation+1, time.Hour, 0) // the bucket is another one
	advance(generation, -time.Second, 0)
	advance(generation, 200*ms, 200*ms)
	advance(generation, time.Hour, 500*ms)
	advance(generation, time.Hour, 500*ms)                           // it is moved already
	d.wantWait(d.one(begin(5)), reservations.StateReserved, 1500*ms) // behind both, who come after 0.5 and 1 s now
	d.i.Advance(500 * ms)
	first := begin(5)
	first.State, first.Due = reservations.StateReserved, waits[1].Due
	d.wantStart(d.one(first), 0)
}

// Who comes too late, since nobody stands in front of it, finds what came back meanwhile: all of it is there for those who come, but nothing before a block ends.
func testAdvanceFull(d driver) {
	for _, blocked := range []time.Duration{0, 2 * time.Second} {
		d.key += "."
		d.limit = oneMeter(10, 20, reservations.Unlimited)
		first := d.apply(begin(20), begin(5))[1] // due after 0.5 s
		d.i.Advance(time.Second)
		d.apply(reservations.Request{Op: reservations.OpBlock, For: blocked, Tokens: []float64{0}})
		o := d.one(reservations.Request{Op: reservations.OpAdvance, Due: first.Due.Add(10 * time.Second), Generation: first.Generation, For: reservations.MaxWait, Tokens: []float64{5}})
		want := 10 * time.Second // 9.5 s are left, and what came back is there for another 0.5 s
		if blocked > 0 {
			want = 9500*ms - blocked - 500*ms // the bucket is empty when the block ends
		}
		if o.Shift.Round(ms) != want {
			d.t.Errorf("blocked for %v, the line is moved by %v, want %v", blocked, o.Shift, want)
		}
	}
}

func testReset(d driver) {
	d.limit = oneMeter(1, 5, reservations.Unlimited)
	before := d.apply(begin(5), begin(5), begin(5))[2]
	d.i.Advance(ms)
	for range 2 { // a bucket that is not there can be reset
		if err := d.i.Store.Reset(d.t.Context(), d.limit, d.key); err != nil {
			d.t.Fatal(err)
		}
	}
	after := d.one(begin(5))
	d.wantStart(after, 0)
	if after.Generation <= before.Generation || after.Shift != 0 {
		d.t.Errorf("generation %d follows %d; it must grow. shift %v", after.Generation, before.Generation, after.Shift)
	}
}

func testVersion(d driver) {
	d.limit = oneMeter(10, 5, 10)
	last := int64(0)
	for _, r := range []reservations.Request{begin(1), ask(reservations.OpCheck, 1), ask(reservations.OpReserve, 1), ask(reservations.OpSettle, 1), begin(5)} {
		o := d.one(r)
		if o.Version <= last {
			d.t.Fatalf("after %s the version is %d, was %d", r.Op, o.Version, last)
		}
		last = o.Version
	}
}

func testApart(d driver) {
	one := d
	one.limit, one.key = oneMeter(10, 5, 0), "a"
	one.wantStart(one.one(begin(5)), 0)
	for _, key := range []string{"", "b", "a:b", "ключ", "$a.b"} {
		other := one
		other.key = key
		other.wantStart(other.one(begin(5)), 0)
		other.wantWait(other.one(begin(5)), reservations.StateTicket, 550*ms)
	}
}

func testClockBack(d driver) {
	d.limit = oneMeter(10, 5, reservations.Unlimited)
	first := d.one(begin(5))
	d.i.Advance(-30 * time.Second)
	back := d.one(begin(3))
	d.wantWait(back, reservations.StateReserved, 300*ms)
	if !back.At.Equal(first.At) {
		d.t.Errorf("decided at %v, want %v: a clock that runs back a little changes nothing", back.At, first.At)
	}
	d.i.Advance(30*time.Second + 300*ms)
	d.wantStart(d.one(as(reservations.StateReserved, 3)), 0)
}

func testClockFarBack(d driver) {
	d.limit = oneMeter(10, 5, reservations.Unlimited)
	first := d.one(begin(5))
	d.i.Advance(-time.Hour)
	back := d.one(begin(3))
	d.wantWait(back, reservations.StateReserved, 300*ms) // nothing granted for the step
	if got := first.At.Sub(back.At); got != time.Hour {
		d.t.Errorf("the bucket followed the clock by %v, want 1h: it must not stand still", got)
	}
	if back.Shift != time.Hour {
		d.t.Errorf("the clock of the line went back too, by %v: those who wait would wait longer", time.Hour-back.Shift)
	}
	d.i.Advance(300 * ms)
	d.wantStart(d.one(as(reservations.StateReserved, 3)), 0)
}

func testMetersChange(d driver) {
	meter := func(name string) reservations.Meter {
		return reservations.Meter{Name: name, Rate: 10, Period: time.Second, Capacity: 10, MaxReserved: reservations.Unlimited}
	}
	d.limit = reservations.Limit{Name: "limit", Meters: []reservations.Meter{meter("a"), meter("b")}}
	d.wantStart(d.one(begin(10, 0)), 0)
	d.limit.Meters = []reservations.Meter{meter("b"), meter("a")}
	d.wantWait(d.one(ask(reservations.OpCheck, 0, 5)), reservations.StateReserved, 500*ms) // the other way round
	d.wantStart(d.one(ask(reservations.OpCheck, 10, 0)), 0)
	d.limit.Meters = []reservations.Meter{meter("c"), meter("a")}
	d.wantStart(d.one(ask(reservations.OpCheck, 10, 0)), 0) // a new one is full
	d.wantWait(d.one(ask(reservations.OpCheck, 0, 5)), reservations.StateReserved, 500*ms)
	d.limit.Meters = []reservations.Meter{meter("a"), meter("b")}
	d.wantStart(d.one(ask(reservations.OpCheck, 0, 10)), 0) // b was full when it left
	d.limit.Meters[0].Capacity = 2
	d.i.Advance(time.Hour)
	d.wantStart(d.one(begin(2, 0)), 0) // a lower capacity holds at once
	d.wantWait(d.one(ask(reservations.OpReserve, 1, 0)), reservations.StateReserved, 100*ms)
}

func testCancelled(d driver) {
	d.limit = oneMeter(10, 5, 0)
	ctx, cancel := context.WithCancel(d.t.Context())
	cancel()
	_, err := d.i.Store.Apply(ctx, d.limit, "", []reservations.Request{begin(5)})
	wantCancelled(d.t, err)
	wantCancelled(d.t, d.i.Store.Reset(ctx, d.limit, ""))
	d.wantStart(d.one(begin(5)), 0)
}

func wantCancelled(t *testing.T, err error) {
	t.Helper()
	var u *reservations.UnavailableError
	if !errors.Is(err, reservations.ErrUnavailable) || !errors.Is(err, context.Canceled) || !errors.As(err, &u) {
		t.Fatalf("with a cancelled context the error is %v", err)
	}
	if u.Applied != reservations.AppliedNo || u.Bucket != "limit" {
		t.Errorf("applied %q to bucket %q; nothing was sent for bucket limit", u.Applied, u.Bucket)
	}
}

func testClockGoesOn(d driver) {
	d.limit = oneMeter(1000, 1000, reservations.Unlimited)
	first := d.one(begin(1000))
	last, deadline := first, time.Now().Add(10*time.Second)
	for last.At.Sub(first.At) < 50*ms {
		if time.Now().After(deadline) {
			d.t.Fatalf("in 10 s the store's clock went on by %v", last.At.Sub(first.At))
		}
		next := d.one(ask(reservations.OpCheck, 1))
		if next.At.Before(last.At) {
			d.t.Errorf("a bucket's time went back from %v to %v", last.At, next.At)
		}
		last = next
	}
	passed := last.At.Sub(first.At).Seconds()
	if skew := math.Abs(time.Since(last.At).Seconds()); skew > 3600 {
		d.t.Errorf("the store's clock is off by %v s", skew)
	}
	o := d.one(begin(passed * 1000))
	if !o.Started() {
		d.t.Errorf("after %v s it is told to wait %v for what came back meanwhile", passed, o.Wait())
	}
}
