package scheduler

import (
	"sync/atomic"
	"time"
)

const (
	// crowdFrom is how many tasks that are sent back by one script make a crowd.
	crowdFrom = 4
	// crowdKept is for how long one is remembered.
	crowdKept = 50 * time.Millisecond
	// crowdGathers is how long tasks that are delivered then wait for others to share a script with. It is far less than the time by which tasks are woken early.
	crowdGathers = 1 * time.Millisecond
)

// crowd notices that a backlog is being sorted: many tasks are sent back at once. Those that are delivered next will most likely be sent back as well, so
// that nobody's start is held up where they wait for each other a little longer. The zero value has seen none. Safe for concurrent use.
type crowd struct {
	last atomic.Pointer[time.Time]
}

// sentBack notes that so many tasks are sent back by one script.
func (c *crowd) sentBack(tasks int) {
	if tasks >= crowdFrom {
		now := time.Now()
		c.last.Store(&now)
	}
}

// gathers is how long to wait for others now.
func (c *crowd) gathers() time.Duration {
	if last := c.last.Load(); last != nil && time.Since(*last) < crowdKept {
		return crowdGathers
	}
	return 0
}
