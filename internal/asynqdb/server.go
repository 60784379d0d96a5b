package asynqdb

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/roundtrip"
)

// ForServer returns the Redis client of an asynq server.
//
// The scripts that end deliveries share round trips. While Redis is away they are repeated, until the task's lease
// ends or stopping is closed. A task that Redis delivered, but whose answer was lost, is the next that the server
// receives.
func ForServer(client redis.UniversalClient, stopping <-chan struct{}) redis.UniversalClient {
	return &server{
		UniversalClient: client, shared: roundtrip.Share(client), stopping: stopping,
		dequeues: dequeues{
			script: redis.NewScript(redeliverScript), lost: map[string]lease{},
			mark: rand.Int64N(marks), //nolint:gosec // needs no secrecy
		},
	}
}

type server struct {
	redis.UniversalClient

	shared   redis.UniversalClient
	stopping <-chan struct{}
	dequeues dequeues
}

// script is a call of a script by its hash.
type script struct {
	sha1 string
	keys []string
	args []any
}

// EvalSha runs one of asynq's scripts. Only those that end a delivery have a deadline: that of the task's lease.
func (s *server) EvalSha(ctx context.Context, sha1 string, keys []string, args ...any) *redis.Cmd {
	call := script{sha1: sha1, keys: keys, args: args}
	if _, bounded := ctx.Deadline(); bounded {
		return s.finish(ctx, call)
	}
	if call.isDequeue() {
		return s.dequeue(ctx, call)
	}
	return s.UniversalClient.EvalSha(ctx, sha1, keys, args...)
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
