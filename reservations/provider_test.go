package reservations_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/headway-go/headway/internal/bucket"
	"github.com/headway-go/headway/reservations"
)

// provider keeps the balance of one meter as a provider does: a call counts when it comes, at the end of its hold. A
// refund counts when the call is settled, and the balance fills up to the capacity. It must always have room for a
// call.
type provider struct {
	meter int // its number in the limit
	rule  bucket.Meter
	now   time.Time
	left  float64
	calls []call // that hold, by the ends of their holds
	fault string
}

type call struct {
	id     int64
	in     time.Duration
	tokens float64
	taken  float64 // by settlements since it was granted
}

func newProvider(l reservations.Limit, k int, now time.Time) *provider {
	return &provider{meter: k, rule: bucket.Rules(l).Meters[k], now: now, left: l.Meters[k].Cap()}
}

func (p *provider) windowed() bool { return p.rule.Filling.Period > 0 }

// pass lets time pass, and the calls come whose holds end.
func (p *provider) pass(d time.Duration) {
	for len(p.calls) > 0 && p.calls[0].in <= d {
		c := p.calls[0]
		p.fill(c.in)
		p.calls, d = p.calls[1:], d-c.in
		p.count(c)
	}
	p.fill(d)
}

func (p *provider) fill(d time.Duration) {
	p.left = min(p.rule.Filling.Capacity, p.left+brings(p.rule, p.now, d))
	p.now = p.now.Add(d)
	for i := range p.calls {
		p.calls[i].in -= d
	}
}

// comes adds a granted start. A call above the capacity needs a full balance and is then owed.
func (p *provider) comes(id int64, hold time.Duration, tokens float64) {
	c := call{id: id, in: hold, tokens: tokens}
	if hold == 0 {
		p.count(c)
		return
	}
	i := 0
	for i < len(p.calls) && p.calls[i].in <= hold {
		i++
	}
	p.calls = slices.Insert(slices.Clone(p.calls), i, c)
}

func (p *provider) count(c call) {
	room := p.left + c.taken + brings(p.rule, p.now, rounding) + 1e-6
	if need := min(c.tokens, p.rule.Filling.Capacity); room < need*(1-1e-9) && p.fault == "" {
		p.fault = fmt.Sprintf("%v are left for a call of %v at %v", room, need, p.now)
	}
	p.left -= c.tokens
}

func (p *provider) cancel(id int64) {
	p.calls = slices.DeleteFunc(p.calls, func(c call) bool { return c.id == id })
}

// refund gives back; what is taken afterwards is not held against calls that were granted before.
func (p *provider) refund(tokens float64) {
	p.left = min(p.rule.Filling.Capacity, p.left+tokens)
	for i := range p.calls {
		p.calls[i].taken += max(0, -tokens)
	}
}
