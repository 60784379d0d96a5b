package storetest

import (
	"time"

	"github.com/headway-go/headway/reservations"
)

func urgent(r reservations.Request) reservations.Request {
	r.Urgent = true
	return r
}

// Urgent tasks use the headroom, wait in a line of their own, and set the ordinary one back.
func testUrgent(d driver) {
	d.limit = oneMeter(10, 10, reservations.Unlimited)
	d.limit.Meters[0].Headroom, d.limit.OrdinaryShare = 4, .5
	shifts := func(o reservations.Outcome, line, express time.Duration) {
		d.t.Helper()
		if !o.Headroom || !near(o.Shift, line) || !near(o.ExpressShift, express) {
			d.t.Fatalf("the lines are moved by %v and %v, want %v and %v: %+v", o.Shift, o.ExpressShift, line, express, o)
		}
	}
	d.wantStart(d.one(begin(6)), 0)
	d.wantWait(d.one(begin(5)), reservations.StateReserved, 500*ms)
	d.wantWait(d.one(ask(reservations.OpTake, 1)), reservations.StateRefused, 600*ms)
	o := d.one(urgent(begin(3)))
	d.wantStart(o, 0)
	shifts(o, -300*ms, 0)
	d.wantStart(d.one(urgent(ask(reservations.OpTake, 1))), 0)
	got := d.apply(urgent(begin(5)), urgent(ask(reservations.OpReserve, 5)), urgent(ask(reservations.OpTake, 1)), urgent(ask(reservations.OpCheck, 1)))
	d.wantWait(got[0], reservations.StateExpress, time.Second) // at half of the rate: an ordinary one waits
	d.wantWait(got[1], reservations.StateExpress, 2*time.Second)
	d.wantWait(got[2], reservations.StateRefused, 2200*ms)
	d.wantWait(got[3], reservations.StateExpress, 2200*ms)
	d.one(reservations.Request{Op: reservations.OpRelease, State: reservations.StateExpress, Tokens: []float64{5}})
	d.wantWait(d.one(urgent(ask(reservations.OpReserve, 5))), reservations.StateExpress, 2*time.Second)
	shifts(d.one(ask(reservations.OpSettle, 2)), -400*ms, 200*ms) // the headroom first
	shifts(d.one(block(time.Second)), -1600*ms, -800*ms)
	d.i.Advance(1300 * ms)
	d.wantStart(d.one(urgent(as(reservations.StateExpress, 3))), 0)
	d.wantWait(d.one(as(reservations.StateReserved, 5)), reservations.StateLate, 900*ms)

	d.limit.Meters[0].Headroom = 0 // nobody is told from another any more
	if o := d.one(urgent(as(reservations.StateExpress, 1))); o.Headroom || o.State != reservations.StateStarted {
		d.t.Errorf("without headroom: %+v", o)
	}
}
