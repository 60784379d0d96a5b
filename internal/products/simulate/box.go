package simulate

import (
	"context"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/reservations"
)

// box is a bucket with its waitlist.
type box struct {
	at       reservations.BucketName
	limit    reservations.Limit
	rules    bucket.Limit
	headroom bool
	state    bucket.Bucket
	line     line
	promoted []*running // that have not begun, in order
	taken    time.Duration
	dirty    bool

	looked  bool          // nothing has changed since a look at which the head could not start
	stalled bool          // in fleet.stalled
	look    time.Duration // when the next look is planned; zero for none
	planned int           // counts the plans of looks
	meters  []meterCount
	scarce  int // the meter that the head waits for since the time; below zero for none
	since   time.Duration
	blocked time.Duration // in all
	epoch   int           // fleet.starts at the last refund
	series  int           // where the recorder has its first meter
}

// meterCount counts what one meter of a bucket does.
type meterCount struct {
	consumed float64       // what started, less what was given back.
	refunded float64       // of that since the last start of any call.
	short    time.Duration // how long the head of the waitlist waited for it
	busy     float64       // slots in use times seconds, of calls in flight
	slots    float64       // in use
	changed  time.Duration // when slots last changed
}

// box returns the bucket of a charge, which names its shard.
func (f *fleet) box(c reservations.Charge) (*box, error) {
	at := c.Bucket()
	if b := f.boxes[at]; b != nil {
		return b, nil
	}
	limit, err := inside.Of(f.limiter).LimitFor(context.Background(), c) // configured limits need no I/O
	if err != nil {
		return nil, err
	}
	b := &box{
		at: at, limit: limit, rules: bucket.Rules(limit), scarce: -1,
	}
	b.headroom = b.rules.HasHeadroom()
	b.meters = make([]meterCount, len(b.rules.Meters))
	b.series = f.metered
	f.metered += len(b.meters)
	f.boxes[at] = b
	f.order = append(f.order, b)
	return b, nil
}

// name is that of the bucket.
func (b *box) name() string { return b.at.String() }

// step asks the bucket.
func (f *fleet) step(b *box, r bucket.Request) bucket.Answer {
	var a bucket.Answer
	b.state, a = bucket.Step(b.state, b.rules, f.clock(), r)
	if r.Op != bucket.OpReserve { // a promise lets no waiting call start
		f.touch(b)
	}
	return a
}

// touch has the waitlist of a bucket looked at before time goes on.
func (f *fleet) touch(b *box) {
	b.looked = false
	if !b.dirty {
		b.dirty = true
		f.dirty = append(f.dirty, b)
	}
}

// consume counts tokens that a start takes. Negative ones are given back.
func (f *fleet) consume(b *box, tokens []float64, sign float64, refund bool) {
	if refund && b.epoch != f.starts {
		b.epoch = f.starts
		for k := range b.meters {
			b.meters[k].refunded = 0
		}
	}
	for k, n := range tokens {
		m := &b.meters[k]
		if b.rules.Meters[k].Filling.InFlight {
			m.busy += m.slots * (f.now - m.changed).Seconds()
			m.slots, m.changed = m.slots+sign*n, f.now
			continue
		}
		m.consumed += sign * n
		if refund {
			m.refunded -= sign * n
		}
		f.series.take(b, k, sign*n)
	}
}

// pick sets the shard of a charge whose limit has several: the better of two that are drawn, as a fleet's processes
// choose.
func (f *fleet) pick(c reservations.Charge, shards int) (reservations.Charge, error) {
	one, other := f.random.IntN(shards), f.random.IntN(shards-1)
	if other >= one {
		other++
	}
	c.Shard = one + 1
	a, err := f.box(c)
	if err != nil {
		return c, err
	}
	c.Shard = other + 1
	b, err := f.box(c)
	if err != nil {
		return c, err
	}
	if max(b.taken, f.now) >= max(a.taken, f.now) {
		c.Shard, b = one+1, a
	}
	lasts := min(b.rules.Seconds(b.rules.Vector(c.Tokens)), seenMost.Seconds())
	b.taken = max(b.taken, f.now) + time.Duration(lasts*float64(time.Second))
	return c, nil
}

// seenMost is the longest time for which one charge counts in the choice of a shard.
const seenMost = time.Minute

// scarcest is the meter that a claim has to wait for longest; below zero during a block.
func (b *box) scarcest(now time.Time, c *claim) int {
	state := b.state.Accrue(b.rules, now)
	if state.Blocked.After(state.At) {
		return -1
	}
	scarce, longest := -1, time.Duration(0)
	for k, n := range c.tokens {
		m := state.Meters[k]
		if !c.charge.Urgent {
			n += m.Filling.Headroom
		}
		if w := state.Until(m, min(n, m.Filling.Capacity)-m.Started); w > longest {
			scarce, longest = k, w
		}
	}
	return scarce
}

// countShort counts the time in which the head of a waitlist waited for a meter.
func (f *fleet) countShort(b *box) {
	if b.scarce >= 0 {
		b.meters[b.scarce].short += f.now - b.since
		b.scarce = -1
	}
}
