package memredis

import (
	"context"
	"net"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// poolSize is more connections than a test needs: go-redis keeps the timers of callers that wait for a connection for
// the whole program, and a timer belongs to one bubble.
const poolSize = 10_000

// Client returns a client that dials this network, also in a bubble of testing/synctest, with these changes of its
// options. It ends with the test.
func Client(
	tb testing.TB, dial func(ctx context.Context, network, address string) (net.Conn, error),
	changes ...func(*redis.Options),
) *redis.Client {
	tb.Helper()
	options := &redis.Options{
		// A host name would be looked up, through a channel of package net that belongs to the first bubble.
		Addr: "127.0.0.1:6379", Dialer: dial, PoolSize: poolSize,
		DisableIdentity:          true, // the first answer is the whole greeting, see network.Wire
		DialerRetries:            1,    // between tries go-redis sleeps, and its PubSub holds a mutex meanwhile
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	for _, change := range changes {
		change(options)
	}
	client := redis.NewClient(options)
	tb.Cleanup(func() { _ = client.Close() })
	return client
}
