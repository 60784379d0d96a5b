// Package memredis gives tests a Redis in memory.
package memredis

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/products/embedded"
)

// Start returns a client of a Redis of its own. Both end with the test.
func Start(t *testing.T) *redis.Client {
	t.Helper()
	server, err := embedded.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	client := server.Connect()
	t.Cleanup(func() { _ = client.Close() })
	return client
}
