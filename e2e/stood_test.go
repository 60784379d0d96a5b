package e2e_test

import (
	"sync"
	"testing"
	"time"
)

const (
	// beat is how often a test checks that the machine runs.
	beat = 10 * time.Millisecond
	// standsFrom is the delay of a beat that counts as a stall of the machine.
	standsFrom = 20 * time.Millisecond
)

// pulse measures how long the machine has stalled. No process can use a limit during a stall, and starts that were
// granted just before are late and lost. So a stall costs up to twice its length.
type pulse struct {
	mu    sync.Mutex // guards the fields below
	stood time.Duration
	worst time.Duration // the longest delay of a beat
}

// newPulse measures until the test ends.
func newPulse(t *testing.T) *pulse {
	t.Helper()
	p, end := &pulse{}, make(chan struct{})
	var beating sync.WaitGroup
	beating.Go(func() {
		ticker := time.NewTicker(beat)
		defer ticker.Stop()
		last := time.Now()
		for {
			select {
			case <-end:
				return
			case <-ticker.C:
			}
			now := time.Now()
			late := now.Sub(last) - beat
			p.mu.Lock()
			p.worst = max(p.worst, late)
			if late > standsFrom {
				p.stood += late
			}
			p.mu.Unlock()
			last = now
		}
	})
	t.Cleanup(func() {
		close(end)
		beating.Wait()
	})
	return p
}

// total returns how long the machine has stalled so far.
func (p *pulse) total() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stood
}

// longest returns the longest delay of a beat so far. A call of a process that has to wait for a processor arrives late
// by as much. Later calls that do not wait arrive too close to it, by as many tokens as the rate gives in that time.
func (p *pulse) longest() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.worst
}
