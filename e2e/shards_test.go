package e2e_test

import (
	"testing"
	"time"
)

// A limit with four shards is the same limit for the provider.
//
//nolint:paralleltest // measures a limit: it has the machine for itself
func TestShards(t *testing.T) {
	measures(t, 25*time.Second)
	tasks := sized(400, 900)
	w := newWorld(t, setting{
		limit:    "{meters: {requests: {rate: 60/s, capacity: 20}}, shards: 4}",
		provider: []string{"-requests-rate=60", "-requests-capacity=20"},
	})
	w.enqueue(t, smallChats(1, tasks))
	w.start(t, fleet)
	w.awaitCompleted(t, tasks)
	w.wantNoRetries(t)
	f := w.finish(t)
	f.wantOnce(t, tasks)
	f.wantUsed(t, f.Utilization, 0.95)
}
