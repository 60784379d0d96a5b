package metrics

import (
	"errors"
	"fmt"
	"time"
)

// Ready is nil if Redis and the store of the buckets answered when they were last read, which a scrape and Ready cause.
// It waits for no store, but for the first read: half a second at most. The error names the services that do not
// answer.
func (m *Metrics) Ready() error {
	f := m.fleet
	if !f.want() {
		return nil
	}
	f.awaitFirst()
	f.mu.Lock()
	defer f.mu.Unlock()
	var faults []error
	for _, name := range []string{serviceRedis, serviceBuckets} {
		if p := f.parts[name]; p != nil && p.answers(time.Now()) != nil {
			faults = append(faults, fmt.Errorf("%s: %w", name, p.answers(time.Now())))
		}
	}
	return errors.Join(faults...)
}
