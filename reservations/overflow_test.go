package reservations_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/headway-go/headway/reservations"
)

// 4000 tasks whose tokens are reserved when they arrive, 100 a second, of a fleet that is not up yet, or goes down: those that became due meanwhile are told
// once more, and nobody else. The limit is used as well as it can be, in their order.
func TestFleetReservedWhileDown(t *testing.T) {
	t.Parallel()
	inf := math.Inf(1)
	for _, c := range []struct {
		outage     [2]float64
		deliveries float64
		util       float64 // of the time until the last start: those 40 s, and the outage
	}{
		{[2]float64{0, 0}, 1, .997},
		{[2]float64{0, .3}, 1.01, 40 / 40.4},
		{[2]float64{0, 5}, 1.13, 40 / 45.3},
		{[2]float64{20, 30}, 1.26, 40 / 50.2},
	} {
		for _, capacity := range []float64{10, 100} {
			t.Run(fmt.Sprintf("%g to %g, capacity %g", c.outage[0], c.outage[1], capacity), func(t *testing.T) {
				t.Parallel()
				f := withDefaults(fleet{tasks: 4000, limit: limitOf(perSecond("tokens", 100, capacity, inf)), reserved: true, outage: c.outage, seed: 1})
				f.simulate()
				r := f.report()
				t.Logf("%+v", r)
				if util := c.util - capacity/4000; r.done != f.tasks || r.win > 1+1e-9 || r.util < util || r.deliveries > c.deliveries || r.most > 2 || r.lost > .01 {
					t.Errorf("%+v, want %.4f of the limit and at most %g deliveries a task", r, util, c.deliveries)
				}
			})
		}
	}
}

// A full bucket of 10 a second waits for 30 reserved tasks, two seconds of which are lost with nobody there.
func TestStepOverflow(t *testing.T) {
	t.Parallel()
	var b reservations.Bucket
	var o reservations.Outcome
	step := func(at float64, r reservations.Request) reservations.Outcome {
		t.Helper()
		b, o = reservations.Step(b, ten(math.Inf(1)), clock(at), r)
		return o
	}
	owed := func(want float64) {
		t.Helper()
		if len(b.Owed) != 1 || math.Abs(b.Owed[0]-want) > 1e-6 {
			t.Errorf("owed %v, want %v", b.Owed, want)
		}
	}
	places := make([]reservations.Outcome, 30)
	for i := range places {
		places[i] = step(100, reservations.Request{Op: reservations.OpReserve, Tokens: []float64{1}})
	}
	owed(0)
	begins := func(at float64, i int) reservations.Outcome {
		t.Helper()
		return step(at, reservations.Request{Op: begin, State: reserved, Due: places[i].Due, Tokens: []float64{1}})
	}
	for i := range 13 { // the first ten are there, three hold
		if begins(102, i); i < 12 && (!o.Started() || o.Shift != 0) {
			t.Fatalf("task %d: %+v", i, o)
		}
	}
	if o.State != late || math.Abs(o.Wait().Seconds()-.3) > 1e-6 || math.Abs(o.Shift.Seconds()+1.8) > 1e-6 {
		t.Errorf("the first who finds nothing: %+v, and the line is at %v; want it late in 0.3 s, and all who wait 1.8 s later: the plan has learned of 0.2 s", o, o.Shift)
	}
	owed(0)
	if o := begins(102.35, 13); !o.Started() || math.Abs(o.Hold.Seconds()-.05) > 1e-6 || math.Abs(o.Shift.Seconds()+1.8) > 1e-6 {
		t.Errorf("the next at its time: %+v after %v", o, o.Hold)
	}
	if next := step(102.35, reservations.Request{Op: reservations.OpReserve, Tokens: []float64{1}}); math.Abs(next.Wait().Seconds()-1.75) > 1e-6 {
		t.Errorf("the next newcomer comes in %v, want after the 16 before it", next.Wait())
	}
}

// Who comes before its time misses nothing, and who was told with its own way in mind neither.
func TestStepOverflowIsNotEarliness(t *testing.T) {
	t.Parallel()
	l := ten(math.Inf(1))
	var b reservations.Bucket
	var o reservations.Outcome
	for range 30 {
		b, o = reservations.Step(b, l, clock(100), reservations.Request{Op: reservations.OpReserve, For: time.Second, Tokens: []float64{1}})
	}
	if want := 3 * time.Second; (o.Wait() - want).Abs() > time.Microsecond { // the 30th: ten at once, and a second that is lost
		t.Errorf("the last of 30 comes in %v, want %v", o.Wait(), want)
	}
	for range 10 {
		b, _ = reservations.Step(b, l, clock(101), reservations.Request{Op: begin, State: reserved, Due: clock(101), Tokens: []float64{1}})
	}
	b, o = reservations.Step(b, l, clock(101), reservations.Request{Op: begin, State: reserved, Due: clock(103), Tokens: []float64{25}})
	if o.Started() || o.Shift != 0 || b.Owed[0] > 1e-6 {
		t.Errorf("%+v, owed %v: want nothing owed", o, b.Owed)
	}
}
