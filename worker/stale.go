package worker

import (
	"sync"
	"time"
)

const (
	// staleAfter is how much later than it was admitted, and than is usual, a task may start: a provider's bucket bears about as much for requests
	// that travel at different speeds.
	staleAfter = 50 * time.Millisecond
	// usualOf is the time in which the soonest start says how late they usually are.
	usualOf = time.Second
	// askMost is how often a delivery asks in all, for what a start took that came too late is lost. One that is too late so often in a row starts.
	askMost = 3
)

// usual is how late starts are: those who hold, by what a timer and the machine are; those who need not, by the way of the last bucket's answer as well.
type usual struct {
	held, atOnce punctuality
}

func (u *usual) of(c *claim) *punctuality {
	if c.outcome.Hold > 0 {
		return &u.held
	}
	return &u.atOnce
}

// lasts says whether a start that comes too late is none the worse for it: a fixed window counts it as it did when it was let start. A day's window would have the task
// wait until tomorrow.
func (g *gate) lasts(c *claim) bool {
	limit, err := g.limiter.Limits().For(c.charge.Limit, c.charge.Key)
	at := c.outcome.At
	return err == nil && limit.SameWindows(at, at.Add(time.Since(c.decided)))
}

// punctuality tells which starts come too late: so much later than they were admitted that they could meet, at the provider, those that
// were admitted after them. That is so after a process or a machine stood still. A process that is always late is not: its calls come at the distances they should,
// and it must get on. The zero value expects starts in time. Safe for concurrent use.
type punctuality struct {
	mu    sync.Mutex    // guards what is below
	usual time.Duration // by how much the soonest start was late in the last period with a start
	since time.Time     // when this period began
	least time.Duration // and by how much the soonest was late in it
}

// stale says whether a start that is late by so much came too late: by more than most beyond what is usual. It takes
// note of it.
func (p *punctuality) stale(now time.Time, late, most time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.since) >= usualOf {
		p.usual, p.since, p.least = p.least, now, late
	}
	p.least = min(p.least, late)
	return late > p.usual+most
}
