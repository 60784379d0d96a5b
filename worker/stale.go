package worker

import (
	"sync"
	"time"
)

const (
	// staleAfter is how much later than granted, and than typical, a task may start. Providers tolerate about as much
	// between requests that travel at different speeds.
	staleAfter = 50 * time.Millisecond
	// typicalFor is the time in which the soonest start says how late they usually are.
	typicalFor = time.Second
	// askMost is how often a delivery asks in all. The tokens of a late start are lost, so the last one counts
	// although it is late.
	askMost = 3
)

// startDelays is how late starts typically are. A start with a hold is late by the timer; a start at once is late by
// the time of the bucket's answer as well.
type startDelays struct {
	held, atOnce punctuality
}

func (u *startDelays) of(c *claim) *punctuality {
	if c.outcome.Hold > 0 {
		return &u.held
	}
	return &u.atOnce
}

// lasts reports whether a late start counts as it did when it was granted, as in the same fixed window. Otherwise a
// day's window would have the task wait until tomorrow.
func (g *guard) lasts(c *claim) bool {
	limit, err := g.limiter.Limits().For(c.charge.Limit, c.charge.Key)
	at := c.outcome.At
	return err == nil && limit.SameWindows(at, at.Add(time.Since(c.decided)))
}

// punctuality detects starts that come so late that they could meet, at the provider, starts that were granted later.
// That happens after a process or a machine was suspended. A process that is always late is exempt: its calls are as
// far apart as they should be. The zero value expects starts in time. Safe for concurrent use.
type punctuality struct {
	mu      sync.Mutex    // guards what is below
	typical time.Duration // by how much the soonest start was late in the last period with a start
	since   time.Time     // when this period began
	least   time.Duration // and by how much the soonest was late in it
}

// stale records the delay of a start, and reports whether it is more than most above the typical one.
func (p *punctuality) stale(now time.Time, late, most time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.since) >= typicalFor {
		p.typical, p.since, p.least = p.least, now, late
	}
	p.least = min(p.least, late)
	return late > p.typical+most
}
