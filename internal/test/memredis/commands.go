package memredis

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/calls/pause"
	"github.com/headway-go/headway/internal/products/embedded"
	"github.com/headway-go/headway/internal/test/network"
	"github.com/headway-go/headway/reservations/redisstore"
)

// Redis is a Redis for commands: they reach it by Dial, whatever their REDIS_URL.
type Redis struct {
	Client *redis.Client

	server *embedded.Redis
	wire   *network.Wire
}

// beginning is when New returns in a bubble, which begins in 2000: times in Redis have as many digits as today's.
var beginning = time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC) //nolint:gochecknoglobals // a constant

// New returns a Redis of its own with a client. Its buckets begin full. Both end with the test.
func New(tb testing.TB) *Redis {
	tb.Helper()
	if time.Now().Year() == 2000 {
		if err := pause.For(tb.Context(), time.Until(beginning)); err != nil {
			tb.Fatal(err)
		}
	}
	r := &Redis{server: Open(tb)}
	r.wire = r.Wire(0, time.Millisecond)
	r.Client = Client(tb, r.Dial)
	if _, err := redisstore.OpenNew(tb.Context(), r.Client); err != nil { // its buckets are full
		tb.Fatal(err)
	}
	return r
}

// Wire returns another network to the Redis, where a message takes between least and most.
func (r *Redis) Wire(least, most time.Duration) *network.Wire {
	return network.New(network.NewConditions(1, 1, least, most), r.server.Serve)
}

// Commands returns how many commands were sent to the Redis.
func (r *Redis) Commands() int { return int(r.server.Commands()) }

// Refuse ends the connections of Dial, and lets none be made.
func (r *Redis) Refuse() { r.wire.Set(network.Refuse) }

// Dial connects to the Redis, whatever the address.
func (r *Redis) Dial(ctx context.Context, kind, address string) (net.Conn, error) {
	return r.wire.Dial(ctx, kind, address)
}

// Inspector looks at the queues of the Redis. It needs no Close.
func (r *Redis) Inspector() *asynq.Inspector { return asynq.NewInspectorFromRedisClient(r.Client) }
