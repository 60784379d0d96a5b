package storetest

import (
	"time"

	"github.com/headway-go/headway/reservations"
)

// A meter that the limit of a caller lacks is kept: the next caller that has it finds it as it was, and what has passed.
func testIdleMeters(d driver) {
	meter := func(name string, rate float64) reservations.Meter {
		return reservations.Meter{Name: name, Rate: rate, Period: time.Second, Capacity: 10, MaxReserved: reservations.Unlimited}
	}
	both, one := []reservations.Meter{meter("a", 10), meter("b", 1)}, []reservations.Meter{meter("a", 10)}
	d.limit = reservations.Limit{Name: "limit", Meters: both}
	d.wantStart(d.one(begin(1, 10)), 0)
	d.limit.Meters = one
	for range 5 {
		d.i.Advance(time.Second)
		d.wantStart(d.one(begin(10)), 0)
	}
	d.limit.Meters = both
	d.wantWait(d.one(ask(reservations.OpTake, 0, 6)), reservations.StateRefused, time.Second)
	d.wantStart(d.one(ask(reservations.OpTake, 0, 5)), 0)
	d.limit.Meters = one
	d.apply(ask(reservations.OpCheck, 0))
	b, ok, err := d.i.Store.Bucket(d.t.Context(), "limit", "")
	if err != nil || !ok || len(b.Idle) != 1 || b.Idle[0].Name != "b" || b.FullAt(d.limit).Sub(b.At) < 9*time.Second {
		d.t.Errorf("bucket %+v, %v %v: b stands idle and is not full for 10 s", b, ok, err)
	}
}

// A rate that changes while tasks wait: the clock of the line runs at another speed.
func testRateChanges(d driver) {
	d.limit = oneMeter(10, 10, reservations.Unlimited)
	d.apply(begin(10))
	waits := d.one(begin(10))
	d.apply(begin(10), begin(10), begin(10))
	for _, c := range []struct {
		rate  float64
		speed float64
		wait  time.Duration
	}{{100, 10, 100 * ms}, {10, 1, time.Second}, {1, .1, 10 * time.Second}, {10, 1, time.Second}} {
		d.limit = oneMeter(c.rate, 10, reservations.Unlimited)
		o := d.one(ask(reservations.OpSettle, 0))
		o.Due = waits.Due
		if !near(o.Wait(), c.wait) || !close6(o.Speed, c.speed) {
			d.t.Fatalf("at %v a second the first waits %v, speed %v; want %v, %v", c.rate, o.Wait(), o.Speed, c.wait, c.speed)
		}
	}
	d.limit = oneMeter(100, 10, reservations.Unlimited)
	d.apply(ask(reservations.OpSettle, 0))
	d.i.Advance(50 * ms)
	o := d.one(ask(reservations.OpSettle, 0))
	o.Due = waits.Due
	if !near(o.Wait(), 50*ms) {
		d.t.Errorf("after 50 ms it waits %v, want 50ms", o.Wait())
	}
	d.wantWait(d.one(begin(1)), reservations.StateReserved, 360*ms)
	d.i.Advance(50 * ms)
	d.wantStart(d.one(as(reservations.StateReserved, 10)), 0)
	d.i.Advance(time.Hour)
	if o := d.one(begin(1)); o.Speed != 1 {
		d.t.Errorf("nobody waits, and the speed is %v", o.Speed)
	}
}

// A change that leaves all who wait next to nothing of the time they had: what only kept their places in a fast meter all but goes.
func testTimeAllButGoes(d driver) {
	meter := func(name string, rate float64) reservations.Meter {
		return reservations.Meter{Name: name, Rate: rate, Period: time.Second, Capacity: 1, MaxReserved: reservations.Unlimited}
	}
	m := model{t: d.t, i: d.i, what: "time all but goes"}
	m.limit = reservations.Limit{Name: "model", Meters: []reservations.Meter{meter("fast", 3000), meter("scarce", 1e-4)}}
	m.compare([]reservations.Request{begin(1, 1), begin(1e-5, 50)})
	m.limit.Meters = []reservations.Meter{meter("fast", .01)}
	m.compare([]reservations.Request{ask(reservations.OpCheck, 0)})
	m.advance(time.Second)
	m.compare([]reservations.Request{begin(1)})
}

// A meter that the caller who blocks lacks is blocked as well, once.
func testBlockWithoutAMeter(d driver) {
	meter := func(name string, rate float64) reservations.Meter {
		return reservations.Meter{Name: name, Rate: rate, Period: time.Second, Capacity: 10, MaxReserved: reservations.Unlimited}
	}
	m := model{t: d.t, i: d.i, what: "block without a meter"}
	both := []reservations.Meter{meter("a", 10), meter("b", 100)}
	m.limit = reservations.Limit{Name: "model", Meters: both}
	m.compare([]reservations.Request{begin(3, 0)})
	m.limit.Meters = both[1:]
	m.compare([]reservations.Request{{Op: reservations.OpBlock, Tokens: []float64{0}, For: 3 * time.Second}})
	for range 3 {
		m.advance(500 * ms)
		m.limit.Meters = []reservations.Meter{meter("a", 5), both[1]}
		m.compare([]reservations.Request{begin(1, 1), ask(reservations.OpSettle, 0, 0)})
		m.limit.Meters = both[1:]
		m.compare([]reservations.Request{begin(1)})
	}
	m.limit.Meters = both
	m.advance(1500 * ms)
	m.compare([]reservations.Request{ask(reservations.OpTake, 1, 0), begin(1, 1)})
}

// A plan that is bounded in time.
func testMaxWait(d driver) {
	d.limit = oneMeter(10, 10, reservations.Unlimited)
	d.limit.MaxWait = 2 * time.Second
	got := d.apply(begin(10), begin(15), begin(5), begin(5))
	d.wantWait(got[1], reservations.StateReserved, time.Second) // a full bucket is enough
	d.wantWait(got[2], reservations.StateTicket, 550*ms)        // in 2 s, newcomers may wait for 1.5
	d.wantWait(got[3], reservations.StateTicket, 1050*ms)
	d.i.Advance(550 * ms)
	d.wantWait(d.one(as(reservations.StateTicket, 5)), reservations.StateReserved, 1450*ms)
}

// News of the provider's balance corrects downwards, and upwards where that is asked for.
func testSync(d driver) {
	d.limit = oneMeter(10, 10, reservations.Unlimited)
	sync := reservations.Request{Op: reservations.OpSync, Tokens: []float64{4}, For: 100 * ms}
	d.apply(sync)
	d.wantStart(d.one(ask(reservations.OpTake, 5)), 0)
	d.wantWait(d.one(ask(reservations.OpTake, 1)), reservations.StateRefused, 100*ms)
	d.apply(sync) // more is there, they say
	d.wantWait(d.one(ask(reservations.OpTake, 1)), reservations.StateRefused, 100*ms)
	sync.Up = true
	d.apply(sync)
	d.wantStart(d.one(ask(reservations.OpTake, 5)), 0)
	d.apply(begin(5))
	d.i.Advance(200 * ms)
	if o := d.one(reservations.Request{Op: reservations.OpSync, Tokens: []float64{-1}, Up: true}); o.Shift != 0 {
		d.t.Errorf("what is not known moved the line by %v", o.Shift)
	}
	if o := d.one(reservations.Request{Op: reservations.OpSync, Tokens: []float64{0}}); !near(o.Shift, 0) || o.State != reservations.StateSettled {
		d.t.Errorf("what was there for those who wait is not: %+v", o)
	}
}

// A settlement with an ID counts once, as long as the bucket remembers it; then only what takes counts.
func testSettleOnce(d driver) {
	d.limit = oneMeter(10, 10, reservations.Unlimited)
	settle := func(id int64, n float64, age time.Duration) reservations.Request {
		return reservations.Request{Op: reservations.OpSettle, ID: id, Tokens: []float64{n}, For: age}
	}
	d.apply(begin(10), settle(-7, 4, 0), settle(-7, 4, 0))
	d.apply(settle(-7, 4, time.Minute))
	d.wantStart(d.one(ask(reservations.OpTake, 4)), 0)
	d.wantWait(d.one(ask(reservations.OpTake, 1)), reservations.StateRefused, 100*ms)
	d.i.Advance(time.Second)
	d.wantStart(d.one(ask(reservations.OpTake, 10)), 0)
	others := make([]reservations.Request, 64)
	for i := range others {
		others[i] = settle(int64(i+1), 0, 0)
	}
	d.apply(others...)
	d.apply(settle(-7, 5, 10*ms))
	d.wantWait(d.one(ask(reservations.OpTake, 1)), reservations.StateRefused, 100*ms)
	d.apply(settle(99, -5, 10*ms))
	d.wantWait(d.one(ask(reservations.OpTake, 1)), reservations.StateRefused, 600*ms)
	d.apply(settle(100, 11, 0))
	d.wantStart(d.one(ask(reservations.OpTake, 1)), 0)
}

// A block inside a longer one is told when that one ends.
func testBlockTellsItsEnd(d driver) {
	d.limit = oneMeter(10, 5, reservations.Unlimited)
	for _, c := range []struct{ ask, want time.Duration }{{0, 0}, {2 * time.Second, 2 * time.Second}, {time.Second, 2 * time.Second}, {3 * time.Second, 3 * time.Second}} {
		if o := d.one(block(c.ask)); !near(o.Wait(), c.want) || o.Due.IsZero() != (c.want == 0) {
			d.t.Errorf("a block of %v ends in %v, want %v", c.ask, o.Wait(), c.want)
		}
	}
}
