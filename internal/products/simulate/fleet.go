package simulate

import (
	"container/heap"
	"math/rand/v2"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/reservations"
)

// fleet is the state of a simulation.
type fleet struct {
	config  Config
	limiter *reservations.Limiter // which checks charges; it has no store
	random  *rand.Rand            // chooses shards
	boxes   map[reservations.BucketName]*box
	order   []*box // in the order of their first use
	dirty   []*box // to be looked at

	now    time.Duration
	events events
	pushed int // counts events

	free    int // slots
	pending []*running
	stalled []*box // whose heads can start, and wait for a slot

	flows   map[string]int
	names   []string // of flows
	waits   []wait
	starts  int           // started calls
	last    time.Duration // when the last one started
	ended   time.Duration // when the last one ended
	leases  int64
	checked *reservations.Charge // the charges of the last call, which need no second check
	calling int
	waiting int // arrived and not started
	result  Result
	series  *recorder
	metered int // meters of all boxes
}

// wait is how long a call of a flow waited.
type wait struct {
	flow int
	time time.Duration
}

// clock is the present moment of a store's clock.
func (f *fleet) clock() time.Time { return f.config.Start.Add(f.now) }

// play handles events in the order of their times until none is left, or until the end of the simulation.
func (f *fleet) play(calls []Call) error {
	next := 0
	for {
		var at time.Duration
		switch {
		case next < len(calls) && (len(f.events) == 0 || calls[next].At <= f.events[0].at):
			at = calls[next].At
		case len(f.events) > 0:
			at = f.events[0].at
		default:
			return nil
		}
		if at > f.config.Until {
			f.now = f.config.Until
			return nil
		}
		f.series.advance(at)
		f.now = at
		arrived := next < len(calls) && calls[next].At == at
		if arrived {
			r, err := f.arrival(&calls[next], next)
			if err != nil {
				return err
			}
			next++
			f.waiting++
			f.pending = append(f.pending, r)
		} else {
			e := heap.Pop(&f.events).(event) //nolint:forcetypeassert // the heap of events
			f.handle(e)
		}
		if err := f.settle(); err != nil {
			return err
		}
		f.series.note(f.waiting, f.calling)
		f.result.Waiting.reach(f.waiting, f.now)
		f.result.Running.reach(f.calling, f.now)
		if arrived {
			f.result.Left = f.waiting
		}
	}
}

// handle handles one event.
func (f *fleet) handle(e event) {
	switch {
	case e.box != nil:
		if e.planned == e.box.planned {
			e.box.look = 0
			f.touch(e.box)
		}
	case e.kind == eventHeld:
		f.ask(e.call)
	case e.kind == eventEnded:
		f.end(e.call)
	case e.kind == eventAgain:
		f.pending = append(f.pending, e.call)
	}
}

// settle lets all calls start that can at this moment.
func (f *fleet) settle() error {
	for {
		switch {
		case len(f.dirty) > 0:
			b := f.dirty[0]
			f.dirty = f.dirty[1:]
			b.dirty = false
			f.lookAt(b)
		case len(f.stalled) > 0 && f.free > 0: // in turn, and before new calls
			b := f.stalled[0]
			f.stalled = f.stalled[1:]
			b.stalled = false
			f.touch(b)
		case len(f.pending) > 0:
			r := f.pending[0]
			if err := f.choose(r); err != nil {
				return err
			}
			if c := r.behind(); c != nil {
				f.pending = f.pending[1:]
				f.waitBehind(r, c)
			} else if f.free > 0 {
				f.pending = f.pending[1:]
				f.begin(r)
			} else {
				return nil
			}
		default:
			return nil
		}
	}
}

// choose sets the buckets of a call that is about to ask them.
func (f *fleet) choose(r *running) error {
	for i := range r.claims {
		c := &r.claims[i]
		if c.box != nil {
			continue
		}
		charge := *c.charge
		if limit, err := inside.Of(f.limiter).Limits().For(charge.Limit, charge.Key); err == nil && limit.Shards > 1 {
			if charge, err = f.pick(charge, limit.Shards); err != nil {
				return err
			}
		}
		var err error
		if c.box, err = f.box(charge); err != nil {
			return err
		}
		c.tokens = c.box.rules.Vector(charge.Tokens)
	}
	return nil
}

// behind returns the first claim in whose bucket others wait, and behind which the call has to wait; nil if there is
// none.
func (r *running) behind() *claim {
	for i := range r.claims {
		if c := &r.claims[i]; c.box.line.count > 0 && c.held == "" && !c.urgent() {
			return c
		}
	}
	return nil
}

// waitBehind puts a call behind the ones that wait for a bucket.
func (f *fleet) waitBehind(r *running, c *claim) {
	a := f.step(c.box, bucket.Request{Op: bucket.OpReserve, Tokens: c.tokens, Urgent: c.charge.Urgent})
	c.box.taken = f.now + a.Wait()
	f.join(r, c, a.State, false)
}

// begin has a call ask its buckets, with a slot.
func (f *fleet) begin(r *running) {
	if c := r.behind(); c != nil {
		f.waitBehind(r, c)
		return
	}
	f.free--
	r.slot, r.asked = true, 0
	f.ask(r)
}

// ask asks the buckets that have not let the call start yet. It waits for the hold of each before it asks the next one.
func (f *fleet) ask(r *running) {
	for r.asked < len(r.claims) {
		c := &r.claims[r.asked]
		if r.lease == 0 && c.box.rules.TakesSlots(c.tokens) {
			f.leases++
			r.lease = f.leases
		}
		a := f.step(c.box, bucket.Request{
			Op: bucket.OpStart, Tokens: c.tokens, Promoted: c.held != "", Reserved: c.held == bucket.StateReserved,
			Urgent: c.charge.Urgent, Lease: r.lease, For: leaseFor,
		})
		if c.held == "" {
			c.box.taken = f.now + a.Wait()
		}
		if !a.Started() {
			f.giveBack(r)
			f.join(r, c, a.State, false)
			return
		}
		f.consume(c.box, c.tokens, 1, false)
		c.started, c.holdEnd = true, a.HoldEnd()
		r.asked++
		if a.Hold > 0 {
			f.push(event{at: f.now + a.Hold, kind: eventHeld, call: r})
			return
		}
	}
	f.start(r)
}

// leaseFor is how long a lease lasts: the call that renews it ends it.
const leaseFor = bucket.MaxWait

// giveBack gives back what other buckets have granted to a call that can't start.
func (f *fleet) giveBack(r *running) {
	for i := range r.claims {
		c := &r.claims[i]
		if !c.started {
			continue
		}
		f.consume(c.box, c.tokens, -1, false)
		f.step(c.box, bucket.Request{
			Op: bucket.OpSettle, Tokens: c.tokens, Reserved: c.held == bucket.StateReserved, Lease: r.lease, HoldEnd: c.holdEnd,
		})
		c.started = false
	}
}
