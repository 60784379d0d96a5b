package reservations

import (
	"sync"
	"time"
)

const (
	// tick is how coarse a store's clock may be.
	tick = 2 * time.Millisecond
	// agesBy is the inverse of how fast the bounds of the offset widen: 1 ms in a second.
	agesBy = 1000
)

// storeClock converts the moment of a store's decision to this machine's clock, so that a hold ends neither early nor
// late. Otherwise a slow answer would delay the start by as much, and let it meet starts that were granted later. A
// decision lies between the request and its answer, which bounds the offset of the clocks. Intersecting the recent
// bounds is tighter than trusting the fastest response, above all at the start of a process, where all responses are
// slow. The zero value has seen no answer. Safe for concurrent use.
type storeClock struct {
	mu sync.Mutex // guards the fields below

	here, store time.Time     // one moment on both clocks: the origin of both counts
	least, most time.Duration // bounds of this machine's lead over the store's clock
	seen        time.Time     // when the last answer came
}

// moment is when the answer that was asked for, and came, was decided at the time at of the store's clock: probably,
// and at the latest.
func (c *storeClock) moment(asked, came, at time.Time) (decided, latest time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen.IsZero() {
		c.here, c.store, c.seen = asked, at, came
		c.least, c.most = 0, came.Sub(asked)
	}
	passed := at.Sub(c.store)
	least, most := asked.Sub(c.here)-passed, came.Sub(c.here)-passed
	aged := max(0, came.Sub(c.seen)) / agesBy
	c.least, c.most = max(least, c.least-aged), min(most, c.most+aged)
	if c.least > c.most+tick { // a clock was set
		c.least, c.most = least, most
	}
	if came.After(c.seen) {
		c.seen = came
	}
	latest = within(c.here.Add(passed+c.most), asked, came)
	return within(latest.Add((c.least-c.most)/2), asked, came), latest
}

// earliest is the earliest moment of the store's clock that it can be at a moment of this machine's clock; zero before
// the first answer.
func (c *storeClock) earliest(here time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen.IsZero() {
		return time.Time{}
	}
	aged := max(0, here.Sub(c.seen)) / agesBy
	return c.store.Add(here.Sub(c.here) - c.most - aged)
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
