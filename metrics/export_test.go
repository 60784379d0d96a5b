package metrics

import (
	"context"
	"time"
)

// Read reads the state of the fleet now.
func (m *Metrics) Read(ctx context.Context) {
	for _, name := range []string{serviceRedis, serviceBuckets} {
		p := m.fleet.parts[name]
		m.fleet.mu.Lock()
		p.began = time.Now()
		m.fleet.mu.Unlock()
		m.fleet.read(ctx, name, p, time.Now())
	}
}

// Answers says whether the service counts as up at a moment.
func (m *Metrics) Answers(service string, now time.Time) error {
	m.fleet.mu.Lock()
	defer m.fleet.mu.Unlock()
	return m.fleet.parts[service].answers(now)
}
