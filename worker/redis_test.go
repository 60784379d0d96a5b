package worker_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/test/testenv"
	"github.com/headway-go/headway/worker"
)

// The workers of a fleet keep the limit, and each task runs, on a real Redis as on the one in memory.
func TestFleetOnRedis(t *testing.T) {
	t.Parallel()
	const n = 150
	client := redis.NewClient(&redis.Options{Addr: testenv.StartRedisServer(t).Addr(), ReadTimeout: patience})
	t.Cleanup(func() { _ = client.Close() })
	b := setupOn(t, client, fleetLimit(0))
	b.fleet(n)
	for done := map[string]bool{}; len(done) < n; {
		if f := receive(t, b.finishes); f.Kind == worker.KindSucceeded {
			done[f.Task.ID] = true
		}
	}
	b.keepsLimit(len(b.starts))
}
