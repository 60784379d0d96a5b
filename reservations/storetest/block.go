package storetest

import (
	"time"

	"github.com/headway-go/headway/reservations"
)

func block(d time.Duration) reservations.Request {
	return reservations.Request{Op: reservations.OpBlock, Tokens: []float64{0}, For: d}
}

// Nothing starts during a block, whatever is given back. Who waits is set back by it, and keeps its order.
func testBlock(d driver) {
	d.limit = oneMeter(10, 5, reservations.Unlimited)
	d.wantStart(d.one(begin(5)), 0)
	waits := d.one(begin(5))
	d.wantWait(waits, reservations.StateReserved, 500*ms)
	if o := d.one(block(2 * time.Second)); o.State != reservations.StateSettled || !near(o.Shift, -2*time.Second) {
		d.t.Fatalf("the block is %+v, want a shift of -2s", o)
	}
	for _, within := range []time.Duration{2 * time.Second, time.Second, 0, -time.Hour} {
		if o := d.one(block(within)); !near(o.Shift, -2*time.Second) {
			d.t.Fatalf("a block of %v within it moved the shift to %v", within, o.Shift)
		}
	}
	d.wantWait(d.one(begin(1)), reservations.StateReserved, 2600*ms) // behind who waits
	d.apply(ask(reservations.OpSettle, 4), ask(reservations.OpSettle, 4))
	for _, s := range []reservations.State{reservations.StateReserved, reservations.StateLate} {
		r := as(s, 0)
		r.Dry = true
		d.wantWait(d.one(r), reservations.StateLate, 2*time.Second)
	}
	d.wantWait(d.one(ask(reservations.OpTake, 0)), reservations.StateRefused, 2600*ms)
	d.i.Advance(1500 * ms)
	if o := d.one(block(time.Second)); !near(o.Shift, -2500*ms) { // half a second longer
		d.t.Fatalf("a longer block moved the shift to %v, want -2.5s", o.Shift)
	}
	d.i.Advance(900 * ms)
	d.wantStart(d.one(as(reservations.StateLate, 0)), 100*ms) // holds until the very end
	d.i.Advance(600 * ms)
	d.wantStart(d.one(as(reservations.StateReserved, 5)), 0) // 2.5 s later than it was told
}

func testBlockBounds(d driver) {
	d.limit = oneMeter(10, 5, reservations.Unlimited)
	if o := d.one(block(365 * 24 * time.Hour)); !near(o.Shift, -reservations.MaxBlock) {
		d.t.Errorf("a block of a year lasts %v, want a day", -o.Shift)
	}
	d.i.Advance(reservations.MaxBlock - time.Hour)
	d.wantWait(d.one(ask(reservations.OpTake, 5)), reservations.StateRefused, time.Hour+500*ms) // empty when it ends
	d.i.Advance(-2 * time.Hour)                                                                 // followed: what is left of the block stays
	d.wantWait(d.one(ask(reservations.OpTake, 0)), reservations.StateRefused, time.Hour)
	d.i.Advance(time.Hour)
	d.wantStart(d.one(ask(reservations.OpTake, 0)), 0)
}
