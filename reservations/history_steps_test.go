package reservations_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/internal/inside"
	"github.com/headway-go/headway/reservations"
)

// limitNames are the names of a history's limits, in the order in which a task names them.
var limitNames = []string{"tenant", "model", "day", "provider"}

// pick draws one of the values.
func pick[T any](h *history, of ...T) T { return of[h.IntN(len(of))] }

func (h *history) drawLimits() (limits []reservations.Limit) {
	for _, name := range limitNames[4-pick(h, 1, 1, 2, 2, 3, 4):] {
		l := reservations.Limit{
			Name: name, Settle: pick(h, "", reservations.SettleKeep), Shards: pick(h, 0, 1, 1, 2, 3),
			MaxWait: pick(h, 0, 0, 300*time.Millisecond, time.Minute),
		}
		for k := range pick(h, 1, 1, 2, 3) {
			l.Meters = append(l.Meters, h.drawMeter(fmt.Sprintf("m%d", k)))
		}
		limits = append(limits, l)
	}
	return limits
}

// drawMeter draws rates that all numbers of shards divide.
func (h *history) drawMeter(name string) reservations.Meter {
	m := reservations.Meter{
		Name: name, Rate: pick(h, 12., 60, 1200), Period: pick(h, time.Second, 7*time.Second, time.Minute),
		Settle: pick(h, "", "", reservations.SettleAdjust, reservations.SettleKeep),
	}
	m.Capacity = m.Rate * pick(h, 0, 1./3, 1, 2)
	m.MaxReserved = pick(h, reservations.None, m.Cap()/2, 5*m.Rate, 0)
	if h.IntN(3) == 0 {
		m.Kind = reservations.KindWindow
		switch h.IntN(4) {
		case 0:
			m.Start = -time.Hour - 300*time.Millisecond
		case 1:
			m.Spread = true
		case 2:
			m.Start = time.Duration(virtualStart.UnixNano()) + 80*time.Second
		}
	} else if h.IntN(3) == 0 {
		m.Headroom = m.Cap() / 4
	}
	return m
}

// drawChange draws limits with the names of others, at other rates, of other sizes, with other meters.
func (h *history) drawChange(limits []reservations.Limit) []reservations.Limit {
	limits = slices.Clone(limits)
	for i := range limits {
		l := &limits[i]
		l.Meters = slices.Clone(l.Meters)
		l.MaxWait = pick(h, 0, 300*time.Millisecond, time.Minute)
		for k := range l.Meters {
			m := &l.Meters[k]
			m.Rate *= pick(h, .5, 1, 1, 2, 10)
			m.Capacity *= pick(h, .5, 1, 1, 3)
			m.Headroom = min(m.Headroom, m.Cap()/2)
			if h.IntN(10) == 0 {
				m.MaxReserved = pick(h, reservations.None, m.Rate, 0)
			}
		}
		switch h.IntN(10) {
		case 0:
			l.Meters = append(l.Meters[:len(l.Meters)-1:len(l.Meters)-1], h.drawMeter("m9"))
		case 1:
			slices.Reverse(l.Meters)
		}
	}
	return limits
}

// newJob draws what a task takes: of one limit or several, the narrowest first.
func (h *history) newJob() *job {
	h.jobs++
	j := &job{id: h.jobs}
	for i, l := range h.limits[0] {
		if last := i == len(h.limits[0])-1; last || h.IntN(2) == 0 {
			j.charges = append(j.charges, h.drawCharge(l))
		}
	}
	return j
}

func (h *history) drawCharge(l reservations.Limit) reservations.Charge {
	c := reservations.Charge{
		Limit: l.Name, Key: pick(h, "", "", "k"), Tokens: reservations.Tokens{},
		Urgent: h.IntN(4) == 0,
	}
	for _, m := range l.Meters {
		n := m.Cap() * pick(h, 0, .01, .1, .1, .5, 1, 1.5)
		if l.Shards > 1 {
			n = min(n, m.Cap()) / float64(l.Shards)
		}
		c.Tokens[m.Name] = min(n, m.Rules().Largest())
	}
	return c
}

// draw is a charge that a limiter knows.
func (h *history) draw() reservations.Charge {
	h.asking = h.IntN(2)
	c, _ := h.knows(h.drawCharge(pick(h, h.limits[0]...)))
	return c
}

func (h *history) deliver(ctx context.Context, j *job) {
	h.asking = h.IntN(2)
	if !h.attempt(ctx, j) {
		h.waiting = append(h.waiting, j)
	}
}

func (h *history) arrives(ctx context.Context) { h.deliver(ctx, h.newJob()) }

func (h *history) burst(ctx context.Context) {
	j := h.newJob()
	for range 2 + h.IntN(10) {
		h.jobs++
		h.deliver(ctx, &job{id: h.jobs, charges: slices.Clone(j.charges)})
	}
}

// returns promotes a task after a while.
func (h *history) returns(ctx context.Context) {
	if j := h.removed(); j != nil {
		h.pass(pick(h, 0, 10*time.Millisecond, 200*time.Millisecond, time.Second))
		h.deliver(ctx, j)
	}
}

func (h *history) early(ctx context.Context) {
	for range 3 {
		if j := h.removed(); j != nil {
			h.deliver(ctx, j)
		}
	}
}

func (h *history) twice(ctx context.Context) {
	if j := h.removed(); j != nil {
		other := *j
		other.charges = slices.Clone(j.charges)
		other.deliveries += 1000 // its starts have names of their own
		h.deliver(ctx, j)
		h.deliver(ctx, &other)
	}
}

func (h *history) forgets(ctx context.Context) {
	if j := h.removed(); j != nil {
		for i := range j.charges {
			j.charges[i].Held = ""
		}
		h.deliver(ctx, j)
	}
}

// crash loses a waiting task and a running one.
func (h *history) crash(context.Context) {
	if h.removed(); len(h.running) > 0 {
		h.running = h.running[1:]
	}
}

func (h *history) loses(ctx context.Context) {
	if j := h.removed(); j != nil {
		h.lose = true
		h.deliver(ctx, j)
		h.lose = false
	}
}

func (h *history) reserves(ctx context.Context) {
	c := h.draw()
	many := slices.Repeat([]reservations.Charge{c}, 1+h.IntN(5))
	outcomes, err := h.limiters[h.asking].Reserve(ctx, many...)
	h.note("%d reserves %+v %d times: %v", h.asking, c, len(many), err)
	for _, o := range outcomes {
		h.jobs++
		h.waiting = append(h.waiting, &job{id: h.jobs, charges: []reservations.Charge{o.Charge}})
	}
}

func (h *history) releases(ctx context.Context) {
	j := h.removed()
	if j == nil {
		return
	}
	h.asking = h.IntN(2)
	for _, charge := range j.charges {
		if c, ok := h.knows(charge); ok {
			_, err := h.limiters[h.asking].Release(ctx, c)
			h.note("%d releases task %d %+v: %v", h.asking, j.id, c, err)
		}
	}
}

func (h *history) allows(ctx context.Context) {
	c := h.draw()
	o, err := h.limiters[h.asking].Check(ctx, c)
	var p reservations.Outcome
	if g, fault := h.limiters[h.asking].Allow(ctx, c); fault == nil {
		p = g.Outcomes()[0]
	}
	h.note("%d allows %+v: %s %s %v", h.asking, c, o.State, p.State, err)
	if o.State != p.State || !o.RetryAt.Equal(p.RetryAt) {
		h.wrong("checked %+v, and was answered %+v", o, p)
	}
	if p.Started() {
		h.jobs++
		h.running = append(h.running, &ended{
			fmt.Sprint("allow", h.jobs),
			[]reservations.Charge{c},
			make([]bool, 1),
			h.passed,
		})
	}
}

func (h *history) settles(ctx context.Context) {
	if len(h.running) == 0 {
		return
	}
	i := h.IntN(len(h.running))
	r := h.running[i]
	h.running = slices.Delete(h.running, i, i+1)
	if h.done = append(h.done, r); len(h.done) > 15 {
		h.done = h.done[1:]
	}
	h.pass(time.Duration((r.at - h.passed) * float64(time.Second)))
	h.pass(pick(h, 0, time.Microsecond, bucket.Hold, 3*time.Second))
	h.correct(ctx, r)
}

// settlesAgain sends a settlement once more, by the same ID.
func (h *history) settlesAgain(ctx context.Context) {
	if len(h.done) > 0 {
		h.correct(ctx, pick(h, h.done...))
	}
}

// correct settles or cancels a start in all its limits. What may come back is known here: once, what was charged and
// not used, where the meter gives back at all.
func (h *history) correct(ctx context.Context, r *ended) {
	h.asking = h.IntN(2)
	cancel := h.IntN(3) == 0
	for i := range r.charges {
		c, ok := h.knows(r.charges[i])
		if !ok {
			continue
		}
		used, back := reservations.Tokens{}, map[string]float64{}
		limit, _ := inside.Of(h.limiters[h.asking]).Limits().For(c.Limit, "")
		for _, m := range limit.Meters {
			n := c.Tokens[m.Name]
			used[m.Name] = n * pick(h, 0, .3, 1, 1.5)
			back[m.Name] = n - used[m.Name]
			if keeps := m.Settle == reservations.SettleKeep || m.Settle == "" && limit.Settle == reservations.SettleKeep; keeps {
				back[m.Name] = min(0, back[m.Name])
			}
			if cancel {
				back[m.Name] = n
			}
		}
		if r.settled[i] {
			back = nil
		}
		h.back = back
		h.lose = h.IntN(6) == 0
		asking := untilLost{ctx, h, h.lose} // a lost answer is not asked for again by the real clock
		var o reservations.Outcome
		var err error
		if cancel {
			c.Held = ""                                           // the task gives up
			o, err = h.limiters[h.asking].Cancel(asking, c, r.id) //nolint:contextcheck // asking wraps ctx
		} else {
			o, err = h.limiters[h.asking].Settle(asking, c, used, r.id) //nolint:contextcheck // as above
		}
		h.note("%d settles %s (cancel %v) %+v, used %v, gets %v: %s %v", h.asking, r.id, cancel, c, used, back,
			o.State, err)
		r.settled[i] = r.settled[i] || o.State == settled || errors.Is(err, reservations.ErrUnavailable)
		h.lose, h.back = false, nil
	}
}

// untilLost is a context that ends with the answer that is lost, if one is.
type untilLost struct {
	context.Context //nolint:containedctx // it is one

	h     *history
	loses bool
}

func (c untilLost) Err() error {
	c.h.mu.Lock()
	defer c.h.mu.Unlock()
	if c.loses && !c.h.lose {
		return context.Canceled
	}
	return c.Context.Err()
}

func (h *history) blocks(ctx context.Context) {
	c, d := h.draw(), pick(h, 100*time.Millisecond, 700*time.Millisecond, 3*time.Second, 100*time.Second, time.Hour)
	_, err := h.limiters[h.asking].Block(ctx, c, d)
	h.note("%d blocks %s for %v: %v", h.asking, c.Bucket(), d, err)
}

func (h *history) unblocks(ctx context.Context) {
	c := h.draw()
	_, err := h.limiters[h.asking].Unblock(ctx, c.Limit, c.Key)
	h.note("%d unblocks %s: %v", h.asking, c.Bucket(), err)
}

// syncs corrects downwards.
func (h *history) syncs(ctx context.Context) {
	c := h.draw()
	seen := reservations.Observation{Remaining: c.Tokens, Age: pick(h, 0, 10*time.Millisecond, time.Minute)}
	_, err := h.limiters[h.asking].Sync(ctx, c, seen)
	h.note("%d syncs %s to %+v: %v", h.asking, c.Bucket(), seen, err)
}

// resets is rare: the judges start over.
func (h *history) resets(ctx context.Context) {
	if h.IntN(4) > 0 {
		return
	}
	c := h.draw()
	err := h.limiters[h.asking].Reset(ctx, c.Limit, c.Key)
	h.note("%d resets %s: %v", h.asking, c.Bucket(), err)
	for name := range h.buckets {
		if b, _ := reservations.ParseBucket(name); b.Limit == c.Limit && b.Key == c.Key {
			delete(h.buckets, name)
		}
	}
	h.done = nil // the bucket has forgotten them
}

func (h *history) changes(context.Context) {
	as := h.IntN(2)
	next := h.limits[1-as]
	if h.IntN(2) == 0 {
		next = h.drawChange(next)
	}
	err := h.limiters[as].SetLimits(next)
	if h.note("%d gets %+v: %v", as, next, err); err == nil {
		h.limits[as] = next
	}
}

func (h *history) overrides(context.Context) {
	as := h.IntN(2)
	var all []reservations.Override
	for range h.IntN(3) {
		l := pick(h, h.limits[as]...)
		m := pick(h, l.Meters...)
		all = append(all, reservations.Override{
			Limit: l.Name, Meter: m.Name, Key: pick(h, "", "k"), Rate: m.Rate * pick(h, .5, 1, 2, 10), Period: m.Period,
			Capacity: m.Cap() * pick(h, 0, .5, 2),
		})
	}
	err := inside.Of(h.limiters[as]).SetOverrides(all)
	h.note("%d gets overrides %+v: %v", as, all, err)
}

func (h *history) refreshes(ctx context.Context) {
	c := h.draw()
	_, err := h.limiters[h.asking].Refresh(ctx, c)
	h.note("%d refreshes %s: %v", h.asking, c.Bucket(), err)
}

func (h *history) waits(context.Context) {
	d := pick(h, time.Millisecond, 50*time.Millisecond, 300*time.Millisecond, time.Second, 7*time.Second,
		time.Minute, 10*time.Minute)
	h.pass(d)
	h.note("%v pass", d)
}

func (h *history) runsBack(context.Context) {
	d := pick(h, 10*time.Millisecond, 200*time.Millisecond, 30*time.Second, 90*time.Second, time.Hour)
	h.mu.Lock()
	h.clock = h.clock.Add(-d)
	h.mu.Unlock()
	h.note("the clock runs back by %v", d)
}
