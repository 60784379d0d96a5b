package simulate

import (
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/reservations"
)

// arrival is a call that has just arrived.
func (f *fleet) arrival(c *Call, n int) (*running, error) {
	if len(c.Charges) == 0 {
		return nil, callFault(*c, n, "charges", "needs at least one charge")
	}
	if err := f.check(*c, n); err != nil {
		return nil, err
	}
	r := &running{Call: c, n: n, claims: make([]claim, len(c.Charges)), flow: f.flowOf(c.Charges)}
	for i := range c.Charges {
		r.claims[i].charge = &c.Charges[i]
	}
	return r, nil
}

// flowOf is the number of the flow that the report counts a call in.
func (f *fleet) flowOf(charges []reservations.Charge) int {
	last := charges[len(charges)-1]
	name := last.Flow
	if name == "" && (len(charges) > 1 || last.Key != "") {
		name = charges[0].Bucket().String()
	}
	i, known := f.flows[name]
	if !known {
		i = len(f.names)
		f.flows[name] = i
		f.names = append(f.names, name)
	}
	return i
}

// start makes the call: all of its buckets let it start.
func (f *fleet) start(r *running) {
	f.withdraw(r)
	for i := range r.claims {
		c := &r.claims[i]
		c.held, c.placed = "", false
	}
	if f.refused(r) {
		f.refuse(r)
		return
	}
	f.starts++
	f.last = f.now
	f.waiting--
	f.calling++
	f.waits = append(f.waits, wait{flow: r.flow, time: f.now - r.At})
	if f.config.Observe != nil {
		f.config.Observe(r.n, f.now)
	}
	f.push(event{at: f.now + r.Latency, kind: eventEnded, call: r})
}

// end settles a call that has its answer.
func (f *fleet) end(r *running) {
	f.calling--
	f.result.Done++
	f.ended = f.now
	f.release(r)
	for i := range r.claims {
		c := &r.claims[i]
		back := make([]float64, len(c.tokens))
		given := false
		for k, m := range c.box.limit.Meters {
			if m.Kind == reservations.KindInFlight {
				continue
			}
			used, named := r.Used[m.Name]
			if !named {
				continue
			}
			if back[k] = c.tokens[k] - used; keeps(c.box.limit, m) {
				back[k] = min(0, back[k])
			}
			given = given || back[k] != 0
		}
		f.finish(r, c, back, given)
	}
}

// keeps says whether a settlement gives nothing back to a meter.
func keeps(l reservations.Limit, m reservations.Meter) bool {
	if m.Settle == "" {
		return l.Settle == reservations.SettleKeep
	}
	return m.Settle == reservations.SettleKeep
}

// finish gives tokens back, and the slots of a call in flight.
func (f *fleet) finish(r *running, c *claim, back []float64, given bool) {
	slots := c.box.rules.TakesSlots(c.tokens)
	c.started = false
	if !given && !slots {
		return
	}
	f.consume(c.box, slotsOf(c, back), -1, true)
	f.step(c.box, bucket.Request{Op: bucket.OpSettle, Tokens: back, Lease: r.lease, HoldEnd: c.holdEnd})
}

// slotsOf is what a settlement gives back, with the slots of the call.
func slotsOf(c *claim, back []float64) []float64 {
	all := make([]float64, len(back))
	for k, m := range c.box.rules.Meters {
		if all[k] = back[k]; m.Filling.InFlight {
			all[k] = c.tokens[k]
		}
	}
	return all
}

// refused says whether the provider refuses the call this time: by the seed, the number of the call and the attempt,
// so that another limit has the same calls refused.
func (f *fleet) refused(r *running) bool {
	if f.config.Refuse == 0 {
		return false
	}
	attempt := uint64(r.n)<<8 | uint64(r.refusals) //nolint:gosec // both are not negative
	return stream(f.config.Seed^refusing, attempt).Float64() < f.config.Refuse
}

// refuse sends a call back to its waitlist, before all others, and blocks the bucket of its provider.
func (f *fleet) refuse(r *running) {
	f.result.Refused++
	r.refusals++
	for i := range r.claims {
		c := &r.claims[i]
		f.finish(r, c, make([]float64, len(c.tokens)), false)
	}
	r.lease = 0
	if r.refusals > f.config.MaxRefusals {
		f.release(r)
		f.result.Failed++
		f.waiting--
		f.ended = f.now
		return
	}
	last := &r.claims[len(r.claims)-1]
	after := min(f.config.RetryAfter, last.box.rules.MaxBlock)
	if r.blocked >= last.box.rules.MaxBlock { // it has blocked for long enough: only the call itself waits
		f.release(r)
		f.push(event{at: f.now + after, kind: eventAgain, call: r})
		return
	}
	after = min(after, last.box.rules.MaxBlock-r.blocked)
	r.blocked += after
	for _, b := range f.order {
		if b.at.Limit == last.charge.Limit && b.at.Key == last.charge.Key {
			f.block(b, after)
		}
	}
	f.join(r, last, bucket.StateWaiting, true)
}

// block blocks a bucket.
func (f *fleet) block(b *box, d time.Duration) {
	from := bucket.Later(f.clock(), b.state.Blocked)
	a := f.step(b, bucket.Request{Op: bucket.OpBlock, For: d})
	b.blocked += max(0, a.RetryAt.Sub(from))
}

// refusing keeps the chance of refusals apart from that of arrivals, which has the same seed.
const refusing = 0x9e3779b97f4a7c15
