package metrics

import (
	"context"
	"time"
)

// Read reads the state of the fleet now.
func (m *Metrics) Read(ctx context.Context) {
	for _, name := range []string{serviceRedis, serviceBuckets, serviceRecords} { // keys are of the waitlists
		if p := m.fleet.parts[name]; p != nil {
			m.fleet.read(ctx, name, p)
		}
	}
}

// Answers says whether the service counts as up at a moment.
func (m *Metrics) Answers(service string, now time.Time) error {
	m.fleet.mu.Lock()
	defer m.fleet.mu.Unlock()
	return m.fleet.parts[service].answers(now)
}
