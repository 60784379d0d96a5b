package storetest

import (
	"strconv"
	"time"

	"github.com/headway-go/headway/reservations"
)

// A window fills at once when it ends, and not before.
func testWindow(d driver) {
	d.limit = reservations.Limit{Name: "limit", Meters: []reservations.Meter{
		{Name: "m", Kind: reservations.KindWindow, Rate: 5, Period: time.Minute, MaxReserved: reservations.Unlimited},
	}}
	probe := d
	probe.key = "clock"
	in := func(length time.Duration) time.Duration { // until the next window
		return length - time.Duration(probe.one(ask(reservations.OpCheck, 0)).At.UnixNano())%length
	}
	d.i.Advance(in(time.Minute) + 10*time.Second)
	d.wantStart(d.one(begin(4)), 0)
	d.wantWait(d.one(ask(reservations.OpTake, 2)), reservations.StateRefused, 50*time.Second)
	d.wantStart(d.one(begin(1)), 0)
	d.wantWait(d.one(begin(3)), reservations.StateReserved, 50*time.Second)
	d.wantWait(d.one(begin(2)), reservations.StateReserved, 50*time.Second)
	d.wantWait(d.one(begin(1)), reservations.StateReserved, 110*time.Second)
	d.i.Advance(50*time.Second - 200*ms)
	d.wantStart(d.one(as(reservations.StateReserved, 3)), 200*ms) // holds into its window
	d.i.Advance(200 * ms)
	d.wantStart(d.one(as(reservations.StateReserved, 2)), 0)
	d.wantWait(d.one(as(reservations.StateReserved, 1)), reservations.StateLate, time.Minute)
	d.i.Advance(time.Hour)
	d.wantStart(d.one(begin(5)), 0) // nothing rolls over
	d.wantWait(d.one(ask(reservations.OpTake, 1)), reservations.StateRefused, time.Minute)
	d.key, d.limit.Meters[0].Capacity, d.limit.Meters[0].Start = "rollover", 8, 20*time.Second
	d.wantStart(d.one(begin(8)), 0)
	d.wantWait(d.one(ask(reservations.OpTake, 1)), reservations.StateRefused, 20*time.Second)
	d.i.Advance(20*time.Second + 3*time.Minute)
	d.wantStart(d.one(begin(8)), 0)
	d.wantWait(d.one(ask(reservations.OpTake, 1)), reservations.StateRefused, time.Minute)
}

// Windows whose start lies whole windows ahead: they are full at that moment, however many digits the moment has.
func testWindowToStart(d driver) {
	const ahead = 32553 * time.Second
	clock := d
	clock.key, clock.limit = "clock", oneMeter(1, 1, reservations.Unlimited)
	for i := range 40 {
		start := time.Duration(clock.one(ask(reservations.OpCheck, 0)).At.UnixNano()) + ahead
		d.key, d.limit = "start"+strconv.Itoa(i), clock.limit
		d.limit.Meters = []reservations.Meter{{Name: "m", Kind: reservations.KindWindow, Rate: 1, Period: time.Second, Start: start, MaxReserved: reservations.Unlimited}}
		d.wantWait(d.one(ask(reservations.OpTake, 1)), reservations.StateRefused, ahead)
		d.i.Advance(ms)
	}
}

// Windows and token buckets in one limit: the wait is that of the one that has room last.
func testWindowBesideBuckets(d driver) {
	d.limit = reservations.Limit{Name: "limit", Meters: []reservations.Meter{
		{Name: "requests", Rate: 10, Period: time.Second, Capacity: 5, MaxReserved: reservations.Unlimited},
		{Name: "daily", Kind: reservations.KindWindow, Rate: 7, Period: time.Minute, MaxReserved: reservations.Unlimited},
	}}
	d.i.Advance(time.Minute - time.Duration(d.one(ask(reservations.OpCheck, 0, 0)).At.UnixNano())%time.Minute)
	d.wantStart(d.one(begin(5, 5)), 0)
	d.wantWait(d.one(begin(5, 1)), reservations.StateReserved, 500*ms)
	d.wantWait(d.one(begin(1, 2)), reservations.StateReserved, time.Minute)
	d.apply(ask(reservations.OpSettle, 0, 1)) // a window does not move the line
	if o := d.one(ask(reservations.OpSettle, 1, 0)); !near(o.Shift, 100*ms) {
		d.t.Errorf("the shift is %v, want 100ms", o.Shift)
	}
	b := block(90 * time.Second)
	b.Tokens = []float64{0, 0}
	d.apply(b)
	d.i.Advance(90 * time.Second)
	d.wantStart(d.one(as(reservations.StateLate, 0, 7)), 0) // the window that began meanwhile is there
	d.wantWait(d.one(ask(reservations.OpTake, 1, 0)), reservations.StateRefused, time.Minute-400*ms)
}
