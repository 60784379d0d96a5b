package simulate

import (
	"slices"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/line/class"
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
		if b.line.head().call != r {
			return
		}
	}
	f.touch(b)
}

// place gives a call its place in the waitlist of a bucket.
func (f *fleet) place(r *running, c *claim, front bool) {
	turns := class.TurnsOf(c.box.limit, r.Charges, *c.charge)
	if c.placed = true; front {
		c.place = c.box.line.front(turns)
		return
	}
	c.place = c.box.line.behind(turns, r.At, f.now)
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
	if b.line.count == 0 && len(b.promoted) == 0 {
		b.line.idle()
	}
	f.touch(b)
}

// lookAt promotes the head of a waitlist while it can start now, and plans the next look.
func (f *fleet) lookAt(b *box) {
	f.countShort(b)
	for {
		e := b.line.head()
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
		r, p := b.line.promote()
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
