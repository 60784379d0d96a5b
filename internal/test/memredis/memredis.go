// Package memredis gives tests a Redis in memory, without a socket. It works in testing/synctest bubbles too.
package memredis

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/products/embedded"
	"github.com/headway-go/headway/internal/test/network"
)

// Start returns a client of a Redis of its own. Both end with the test.
func Start(tb testing.TB) *redis.Client {
	tb.Helper()
	return Connect(tb, Open(tb))
}

// Open returns a Redis that ends with the test.
func Open(tb testing.TB) *embedded.Redis {
	tb.Helper()
	server := embedded.New()
	tb.Cleanup(server.Close)
	return server
}

// wireTo is a network to the server on which messages take no time.
func wireTo(server *embedded.Redis) *network.Wire {
	return network.New(network.NewConditions(0, 0, 0, 0), server.Serve)
}

// Connect returns another client of a Redis. It ends with the test. It waits for each answer as long as that takes:
// outside of a bubble, a machine that is busy must not end a wait.
func Connect(tb testing.TB, server *embedded.Redis) *redis.Client {
	tb.Helper()
	return Client(tb, wireTo(server).Dial, func(o *redis.Options) { o.ReadTimeout, o.WriteTimeout = -1, -1 })
}
