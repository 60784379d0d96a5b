package asynqdb

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/calls/lua"
	"github.com/headway-go/headway/internal/calls/roundtrip"
)

// Server is the Redis client of an asynq server. Call [Server.PutBack] when that server has stopped.
//
// The scripts that end deliveries share round trips. While Redis is away they are repeated, until the task's lease
// ends or Stopping is closed. A task that Redis delivered, but whose answer was lost, is the next that the server
// receives. A server with free slots takes several tasks of a long pending list in one round trip.
type Server struct {
	redis.UniversalClient
	ServerConfig

	shared                            redis.UniversalClient
	take, again, back, snooze, passOn *redis.Script

	id          string // of this server among the idle ones
	idle        *idle
	puttingBack chan struct{} // holds one: one at a time, so that the last one waits for the others

	mu    sync.Mutex       // guards what follows
	mark  int64            // of the last dequeue
	lost  map[string]lease // by queue
	ahead batch
	late  *time.Timer // puts ahead back; nil before the first batch
}

// ServerConfig is what a [Server] asks its worker. Each field may be nil.
type ServerConfig struct {
	// Stopping is closed when the server is about to stop.
	Stopping <-chan struct{}
	// Free returns how many tasks the server can run more. Nil means one.
	Free func() int
	// Queues are the queues that the server takes from. With none it polls, as asynq does.
	Queues []string
	// Snoozes are the deliveries that end with a snooze. Nil: none does.
	Snoozes *Snoozes
	// Net is how long a server whose queues were empty waits for a message until it looks again, see [Server.Listen].
	// Zero means NetDefault.
	Net time.Duration
}

// ForServer returns the Redis client of an asynq server.
func ForServer(client redis.UniversalClient, config ServerConfig) *Server {
	return &Server{
		UniversalClient: client, ServerConfig: config, shared: roundtrip.Share(client),
		take: lua.Script(files, "announce", "dequeue"), again: lua.Script(files, "redeliver"),
		back: lua.Script(files, "announce", "put_back"), snooze: lua.Script(files, "snooze"),
		passOn:      lua.Script(files, "announce", "pass_on"),
		lost:        map[string]lease{},
		id:          uuid.NewString(),
		idle:        newIdle(config.Queues),
		puttingBack: make(chan struct{}, 1),
		mark:        rand.Int64N(marks), //nolint:gosec // needs no secrecy
	}
}

// script is a call of a script by its hash.
type script struct {
	sha1 string
	keys []string
	args []any
}

// EvalSha runs one of asynq's scripts. Only scripts that end a delivery have a deadline: the end of the task's lease.
func (s *Server) EvalSha(ctx context.Context, sha1 string, keys []string, args ...any) *redis.Cmd {
	call := script{sha1: sha1, keys: keys, args: args}
	if _, bounded := ctx.Deadline(); bounded {
		return s.finish(ctx, call)
	}
	if call.isDequeue() {
		return s.dequeue(ctx, call)
	}
	if call.isForward() {
		if !s.due(ctx, call) {
			return redis.NewCmdResult(int64(0), nil)
		}
		return s.forwarded(ctx, call, s.UniversalClient.EvalSha(ctx, sha1, keys, args...))
	}
	return s.UniversalClient.EvalSha(ctx, sha1, keys, args...)
}

// Eval runs one of asynq's scripts that Redis does not know yet.
func (s *Server) Eval(ctx context.Context, text string, keys []string, args ...any) *redis.Cmd {
	cmd := s.UniversalClient.Eval(ctx, text, keys, args...)
	if call := (script{keys: keys, args: args}); call.isForward() {
		return s.forwarded(ctx, call, cmd)
	}
	return cmd
}

// isDequeue reports whether the script is asynq's that delivers the next task of a queue.
func (c script) isDequeue() bool {
	if len(c.keys) != 4 || len(c.args) != 2 {
		return false
	}
	_, ok := c.args[0].(int64)
	return ok && strings.HasSuffix(c.keys[0], ":pending") && strings.HasSuffix(c.keys[3], ":lease")
}

// taskKey returns asynq's key of the task in the first argument, or an empty string.
func (c script) taskKey() string {
	if len(c.args) < 2 {
		return ""
	}
	id, _ := c.args[0].(string)
	for _, key := range c.keys {
		if strings.HasSuffix(key, ":t:"+id) {
			return key
		}
	}
	return ""
}

// away reports whether a command did not reach Redis, or reached a Redis that can't serve it now.
func away(err error) bool {
	if err == nil || errors.Is(err, redis.ErrClosed) {
		return false
	}
	_, answered := errors.AsType[redis.Error](err)
	return !answered || redis.IsLoadingError(err) || redis.IsReadOnlyError(err) || redis.IsMasterDownError(err) ||
		redis.IsClusterDownError(err) || redis.IsTryAgainError(err) || redis.IsMaxClientsError(err)
}
