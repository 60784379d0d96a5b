package worker_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/test/testenv"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/worker"
)

// The workers of a fleet keep the limit, and each task runs, on a real Redis as on the one in memory.
func TestFleetOnRedis(t *testing.T) {
	t.Parallel()
	const n = 150
	b := onRedis(t, fleetLimit(0))
	b.fleet(n)
	b.succeed(n)
	b.keepsLimit(len(b.starts))
}

// onRedis returns a bundle with a Redis process.
func onRedis(t *testing.T, limits ...reservations.Limit) *bundle {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: testenv.StartRedisServer(t).Addr(), ReadTimeout: 5 * time.Minute})
	t.Cleanup(func() { _ = client.Close() })
	return setupOn(t, client, limits...)
}

// succeed waits in real time, as long as go test allows, until n tasks have succeeded. It returns their IDs.
func (b *bundle) succeed(n int) map[string]bool {
	done := map[string]bool{}
	for len(done) < n {
		if f := <-b.finishes; f.Kind == worker.KindSucceeded {
			done[f.Task.ID] = true
		}
	}
	return done
}
