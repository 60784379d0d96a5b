package simulate

import (
	"container/heap"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/class"
	"github.com/headway-go/headway/reservations"
)

// fleet is the state of a simulation.
type fleet struct {
	config  Config
	limiter *reservations.Limiter // which checks charges; it has no store
	random  *rand.Rand            // chooses shards
	boxes   map[bucketKey]*box
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
		if limit, err := f.limiter.Limits().For(charge.Limit, charge.Key); err == nil && limit.Shards > 1 {
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
		if c := &r.claims[i]; c.box.line.waiting > 0 && c.held == "" && !c.urgent() {
			return c
		}
	}
	return nil
}

// waitBehind puts a call behind those that wait for a bucket.
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

// join lets a call wait for a bucket.
func (f *fleet) join(r *running, c *claim, state bucket.State, front bool) {
	f.release(r)
	f.withdraw(r)
	if c.held == "" || state == bucket.StateReserved {
		c.held = state
	}
	b := c.box
	if !c.placed {
		f.place(r, c, front)
	}
	b.line.join(r, c.place, f.now)
	r.at = b
	if b.looked {
		if _, first := b.line.head(); first.call != r {
			return
		}
	}
	f.touch(b)
}

// place gives a call its place in the waitlist of a bucket.
func (f *fleet) place(r *running, c *claim, front bool) {
	name, weight := class.Of(c.box.limit, *c.charge)
	of := c.box.line.open(name, f.now)
	c.placed, c.place = true, place{class: name}
	if front {
		c.place.tag = of.front(f.now)
		return
	}
	flow := c.charge.Flow
	if flow == "" && r.claims[0].charge.Limit != c.charge.Limit {
		flow = r.claims[0].box.name()
	}
	seconds := c.box.rules.Seconds(c.tokens)
	c.place.cost = seconds / weight
	c.place.tag = of.behind(flow, seconds/class.Weight(c.box.limit, flow), r.At)
}

// release gives the slot of a call back.
func (f *fleet) release(r *running) {
	if r.slot {
		r.slot = false
		f.free++
	}
}

// withdraw takes a call out of the promoted ones of its bucket. A call that waits is promoted before it asks.
func (f *fleet) withdraw(r *running) {
	b := r.at
	if b == nil {
		return
	}
	r.at = nil
	b.promoted = slices.DeleteFunc(b.promoted, func(p *running) bool { return p == r })
	if b.line.waiting == 0 && len(b.promoted) == 0 {
		b.line.idle()
	}
	f.touch(b)
}

// lookAt promotes the head of a waitlist while it can start now, and plans the next look.
func (f *fleet) lookAt(b *box) {
	f.countShort(b)
	for {
		of, e := b.line.head()
		if e == nil {
			return
		}
		now := f.clock()
		asks := make([]bucket.Ask, 0, len(b.promoted)+1)
		for _, r := range b.promoted {
			if !r.claimIn(b).started { // else the bucket has it, and another one holds the call
				asks = append(asks, r.askIn(b))
			}
		}
		asks = append(asks, e.call.askIn(b))
		starts := b.state.Plan(now, asks, now)
		at := starts[len(starts)-1]
		if at.After(now) || len(starts) < len(asks) {
			in := at.Sub(now)
			if len(asks) > 1 { // the plan is true only if these begin now; when they do, there is another look
				in = max(in, lookLeast)
			}
			f.plan(b, e.call, in)
			return
		}
		if f.free == 0 {
			if !b.stalled {
				b.stalled = true
				f.stalled = append(f.stalled, b)
			}
			return
		}
		r, p := b.line.promote(of)
		r.claimIn(b).place = p
		b.promoted = append(b.promoted, r)
		f.begin(r)
	}
}

// lookLeast is the shortest time between two looks while promoted calls have not begun.
const lookLeast = time.Millisecond

// plan plans the next look at a bucket whose head can't start before in, and notes what it waits for.
func (f *fleet) plan(b *box, r *running, in time.Duration) {
	b.looked = true
	b.scarce, b.since = b.scarcest(f.clock(), r.claimIn(b)), f.now
	at := f.now + in
	if at == b.look || at > f.config.Until {
		return
	}
	b.planned++
	b.look = at
	f.push(event{at: at, box: b, planned: b.planned})
}

func (r *running) claimIn(b *box) *claim {
	for i := range r.claims {
		if r.claims[i].box == b {
			return &r.claims[i]
		}
	}
	return nil
}

// askIn is what the call needs of a bucket.
func (r *running) askIn(b *box) bucket.Ask {
	c := r.claimIn(b)
	return bucket.Ask{Tokens: c.charge.Tokens, Urgent: c.charge.Urgent}
}
