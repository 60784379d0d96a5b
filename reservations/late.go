package reservations

import (
	"sync"
	"time"
)

// typicalFor is the time in which the soonest start says how late they usually are.
const typicalFor = time.Second

// tooLate says that the starts of all claims come by more than most later than is typical. Then their buckets have to
// be asked again. False means that the call may be made.
func (s *starter) tooLate(claims claims, most time.Duration) bool {
	late, provider := time.Since(claims.ready()), claims[len(claims)-1]
	return s.delays.of(provider).stale(time.Now(), late, most)
}

// startDelays is how late starts typically are. A start with a hold is late by the timer; a start at once is late by
// the time of the bucket's answer as well.
type startDelays struct {
	held, atOnce punctuality
}

func (u *startDelays) of(c *claim) *punctuality {
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
