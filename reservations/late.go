package reservations

import (
	"context"
	"sync"
	"time"
)

const (
	// LateMost is how much later than granted, and than typical, a call may start. Providers tolerate about as much
	// between requests that travel at different speeds.
	LateMost = 50 * time.Millisecond
	// askMost is how often a start is asked for in all. The tokens of a late start are lost, so the last one counts
	// although it is late.
	askMost = 3
	// typicalFor is the time in which the soonest start says how late they usually are.
	typicalFor = time.Second
)

// tooLate says that a start of all claims comes by more than most later than is typical. Then it resets the starts that
// do not last, so that their buckets are asked again: their tokens and reservations are lost. False means that the call
// may be made.
func (l *Limiter) tooLate(ctx context.Context, claims Claims, most time.Duration) bool {
	late, provider := time.Since(claims.Ready()), claims[len(claims)-1]
	return l.delays.of(provider).stale(time.Now(), late, most) &&
		lose(claims, func(c *Claim) bool { return l.lasts(ctx, c) })
}

// lose resets the starts that came too late, except the starts that last. It reports whether there are any.
func lose(claims Claims, lasts func(*Claim) bool) (lost bool) {
	for _, c := range claims.Started() {
		if !lasts(c) {
			c.Outcome, lost = Outcome{}, true
			c.Charge.Held = StateWaiting
		}
	}
	return lost
}

// lasts reports whether a late start counts as it did when it was granted, as in the same fixed window. Otherwise a
// day's window would have the task wait until tomorrow.
func (l *Limiter) lasts(ctx context.Context, c *Claim) bool {
	limit, err := l.bucket(ctx, c.Charge)
	at := c.Outcome.At
	return err == nil && limit.Rules().SameWindows(at, at.Add(time.Since(c.Decided)))
}

// startDelays is how late starts typically are. A start with a hold is late by the timer; a start at once is late by
// the time of the bucket's answer as well.
type startDelays struct {
	held, atOnce punctuality
}

func (u *startDelays) of(c *Claim) *punctuality {
	if c.Outcome.Hold > 0 {
		return &u.held
	}
	return &u.atOnce
}

// punctuality detects starts that come so late that they could meet, at the provider, starts that were granted later.
// That happens after a process or a machine was suspended. A process that is always late is exempt: its calls are as
// far apart as they should be. The zero value expects starts in time. Safe for concurrent use.
type punctuality struct {
	mu      sync.Mutex    // guards the fields below
	typical time.Duration // the least delay in the last period with a start
	since   time.Time     // when this period began
	least   time.Duration // the least delay in this period
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
