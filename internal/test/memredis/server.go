package memredis

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/headway-go/headway/internal/products/embedded"
	"github.com/headway-go/headway/internal/test/network"
)

// settling is how long goroutines that wait for time may last after a test. go-redis dials once a second until it sees
// that its pool is closed.
const settling = 10 * time.Second

// Server is a Redis in memory for a test in a bubble of testing/synctest, with a network of its own. Its clock is that
// of the bubble.
type Server struct {
	*embedded.Redis

	// Wire is the network of all clients that Client returns. Messages take no time, unless the test says otherwise.
	Wire *network.Wire

	refusal atomic.Pointer[refusal]
}

// Serve returns a server that ends with the test. At the end of the test some seconds pass, in which what waits for
// time ends too.
func Serve(t *testing.T) *Server {
	t.Helper()
	logging.Disable() // go-redis reports each dial that fails on the standard error, for the whole program
	server := Open(t)
	t.Cleanup(func() { <-time.After(settling) })
	return &Server{Redis: server, Wire: wireTo(server)}
}

// Client returns a client of the server. It ends with the test.
func (s *Server) Client(t *testing.T) *redis.Client {
	t.Helper()
	return s.clientOn(t, s.Wire)
}

// Apart returns a client with a network of its own, as another process has it.
func (s *Server) Apart(t *testing.T) (*redis.Client, *network.Wire) {
	t.Helper()
	wire := wireTo(s.Redis)
	return s.clientOn(t, wire), wire
}

func (s *Server) clientOn(t *testing.T, wire *network.Wire) *redis.Client {
	t.Helper()
	client := Client(t, wire.Dial)
	client.AddHook(refusing{s})
	return client
}

// SetError makes the server refuse all commands of its clients with an error, such as "LOADING busy". An empty text
// ends that. Subscriptions go on.
func (s *Server) SetError(text string) {
	if text == "" {
		s.refusal.Store(nil)
		return
	}
	r := refusal(text)
	s.refusal.Store(&r)
}

// refusal is an error that Redis answers.
type refusal string

func (r refusal) Error() string { return string(r) }

// RedisError makes the refusal an error of Redis for go-redis.
func (refusal) RedisError() {}

// refusing is the hook of a client that returns the refusals of its server.
type refusing struct{ server *Server }

func (refusing) DialHook(next redis.DialHook) redis.DialHook { return next }

func (r refusing) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if err := r.server.refusal.Load(); err != nil {
			cmd.SetErr(*err)
			return *err
		}
		return next(ctx, cmd)
	}
}

func (r refusing) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := r.server.refusal.Load()
		if err == nil {
			return next(ctx, cmds)
		}
		for _, cmd := range cmds {
			cmd.SetErr(*err)
		}
		return *err
	}
}
