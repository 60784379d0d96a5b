package worker

import (
	"sync"
	"time"
)

const (
	// tick is how coarse a store's clock may be.
	tick = 2 * time.Millisecond
	// agesBy is one over how fast what is known of the store's clock grows old: 1 ms in a second.
	agesBy = 1000
)

// storeClock knows when, on this machine's clock, a store decided, so that a start can be held until then and no longer: an answer
// that was long in coming, from a store that is busy or over a slow network, would else make the start late by as much, and
// let it meet those that were admitted after it. The quickest answer of late tells how far the clocks are apart. The zero
// value has seen no answer. Safe for concurrent use.
type storeClock struct {
	mu sync.Mutex // guards what is below

	took  time.Duration // of the quickest answer
	seen  time.Time     // when that came
	here  time.Time     // when it was decided, on this machine's clock: in the middle of its way
	store time.Time     // and on the store's
}

// moment is when the answer that was asked for, and came, was decided at the time at of the store's clock.
func (c *storeClock) moment(asked, came, at time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	took := came.Sub(asked)
	if !c.seen.IsZero() {
		moment := c.here.Add(at.Sub(c.store))
		possible := !moment.Before(asked.Add(-tick)) && !moment.After(came.Add(tick)) // else a clock was set
		if possible && took > c.took+came.Sub(c.seen)/agesBy {
			return within(moment, asked, came)
		}
	}
	c.took, c.seen, c.here, c.store = took, came, asked.Add(took/2), at
	return c.here
}

func within(t, first, last time.Time) time.Time {
	if t.Before(first) {
		return first
	}
	if t.After(last) {
		return last
	}
	return t
}
