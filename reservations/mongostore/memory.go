package mongostore

import (
	"sync"
	"time"
)

const (
	// memoryMost is how many buckets a Store remembers.
	memoryMost = 1024
	// clockKept is how long a reading of the server's clock is carried on by this machine's.
	clockKept = time.Second
	// driftsBy is one over the drift between two clocks that is allowed for: 1 ms in a second, twice what a clock is slewed by.
	driftsBy = 1000
)

// memory holds the buckets that this process wrote last, so that it may swap them without reading. The zero value is empty. Safe for
// concurrent use.
type memory struct {
	mu      sync.Mutex // guards buckets
	buckets map[string]remembered
}

type remembered struct {
	state
	steady bool // no other process wrote between the last two writes of this one
}

// find returns a state from which a swap may start, and the moment at which it decides.
func (m *memory) find(name string, clock func() time.Time) (state, time.Time, bool) {
	m.mu.Lock()
	r := m.buckets[name]
	m.mu.Unlock()
	if !r.steady {
		return state{}, time.Time{}, false
	}
	if clock != nil {
		return r.state, clock(), true
	}
	now, ok := r.now()
	return r.state, now, ok
}

// now is a moment that the server's clock has reached: its last reading and the time that went by on this machine since that
// arrived. It is behind by the way of the answer and the drift that is allowed for, so a swap grants a little less than the
// server's own clock would. Each swap reads the clock again. False where the reading is too old.
func (s state) now() (time.Time, bool) {
	passed := time.Since(s.heard)
	if passed < 0 || passed > clockKept {
		return time.Time{}, false
	}
	return s.clock.Add(passed - passed/driftsBy), true
}

// wrote remembers a write that followed on before.
func (m *memory) wrote(name string, before, after state) {
	m.mu.Lock()
	defer m.mu.Unlock()
	last, known := m.buckets[name]
	if !known && len(m.buckets) >= memoryMost {
		for other := range m.buckets { // any one
			delete(m.buckets, other)
			break
		}
	}
	if m.buckets == nil {
		m.buckets = map[string]remembered{}
	}
	m.buckets[name] = remembered{state: after, steady: known && last.tag == before.tag}
}

// forget drops a bucket, e.g. because an answer is missing.
func (m *memory) forget(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.buckets, name)
}
