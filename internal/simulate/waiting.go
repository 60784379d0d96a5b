package simulate

import (
	"slices"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/class"
)

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
