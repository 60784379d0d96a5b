package e2e_test

import (
	"sync"
	"testing"
	"time"
)

const (
	// beat is how often a test looks whether the machine runs.
	beat = 10 * time.Millisecond
	// standsFrom is how much later than it should a beat comes when the machine stood still.
	standsFrom = 50 * time.Millisecond
)

// pulse knows how long the machine stood still since it was made: nobody can use a limit meanwhile, and what was admitted just before is late and
// lost, so that it costs up to as much again.
type pulse struct {
	mu    sync.Mutex // guards stood
	stood time.Duration
}

// newPulse beats until the test ends.
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
			if late := now.Sub(last) - beat; late > standsFrom {
				p.mu.Lock()
				p.stood += late
				p.mu.Unlock()
			}
			last = now
		}
	})
	t.Cleanup(func() {
		close(end)
		beating.Wait()
	})
	return p
}

// told is for how long it stood still so far.
func (p *pulse) told() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stood
}
