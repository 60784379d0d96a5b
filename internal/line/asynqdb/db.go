// Package asynqdb is the only place that knows asynq's private Redis keys, messages and scripts. asynq does not promise
// to keep them: the tests hold them to the version in go.mod.
//
// A [DB] changes where asynq keeps tasks. Each change is one script, so it is atomic: a process that is killed leaves
// each task where asynq itself will deliver it.
//
// [ForServer] returns the Redis client of an asynq server. With that client, a server takes several tasks in one
// round trip. A delivery that ends, or begins, while Redis is away is not lost.
package asynqdb

import (
	"context"
	"embed"
	"fmt"
	"slices"
	"strings"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/calls/lua"
)

//go:embed lua
var files embed.FS

// DB reads and changes the tasks that asynq keeps in Redis. Safe for concurrent use.
type DB struct {
	client    redis.UniversalClient
	inspector *asynq.Inspector

	wake, first, skip, remove *redis.Script
}

// New returns a DB that uses client. The caller remains responsible for closing client.
func New(client redis.UniversalClient) *DB {
	return &DB{
		client: client, inspector: asynq.NewInspectorFromRedisClient(client),
		wake:  lua.Script(files, "announce", "wake"),
		first: lua.Script(files, "first"), skip: lua.Script(files, "skip"), remove: lua.Script(files, "delete"),
	}
}

// keys are asynq's keys of one queue.
//
// asynq's keys contain the queue's name in braces, so all keys of a queue are in one slot of a Redis cluster.
type keys struct{ prefix string }

func keysOf(queue string) keys { return keys{prefix: "asynq:{" + queue + "}:"} }

// queueOf returns the queue of one of its keys.
func queueOf(key string) string {
	queue := strings.TrimPrefix(key, "asynq:{")
	return queue[:max(0, strings.LastIndex(queue, "}:"))]
}

func (k keys) pending() string   { return k.prefix + "pending" }   // list; workers take from its right
func (k keys) scheduled() string { return k.prefix + "scheduled" } // sorted set by seconds
func (k keys) active() string    { return k.prefix + "active" }    // list; delivered tasks are pushed on its left
func (k keys) retry() string     { return k.prefix + "retry" }     // sorted set by seconds
func (k keys) archived() string  { return k.prefix + "archived" }  // sorted set by seconds
func (k keys) completed() string { return k.prefix + "completed" } // sorted set by seconds
func (k keys) leases() string    { return k.prefix + "lease" }     // sorted set by seconds: the active tasks
func (k keys) paused() string    { return k.prefix + "paused" }    // exists while the queue is paused
func (k keys) tasks() string     { return k.prefix + "t:" }        // prefix of the hash of each task

// Unserved returns which of the queues no live server takes from, and how many servers live.
func (d *DB) Unserved(queues []string) (unserved map[string]bool, live int, err error) {
	servers, err := d.inspector.Servers()
	if err != nil {
		return nil, 0, fmt.Errorf("look for the workers of queues %q: %w", queues, err)
	}
	unserved = map[string]bool{}
	for _, queue := range queues {
		served := func(s *asynq.ServerInfo) bool { return s.Queues[queue] > 0 && s.Status == serverActive }
		if !slices.ContainsFunc(servers, served) {
			unserved[queue] = true
		}
	}
	return unserved, len(servers), nil
}

// Paused returns the queues that are paused.
func (d *DB) Paused(ctx context.Context, queues []string) (map[string]bool, error) {
	paused := make(map[string]bool, len(queues))
	if len(queues) == 0 {
		return paused, nil
	}
	pipe := d.client.Pipeline()
	exists := make([]*redis.IntCmd, len(queues))
	for i, queue := range queues {
		exists[i] = pipe.Exists(ctx, keysOf(queue).paused())
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, fmt.Errorf("read whether queues %q are paused: %w", queues, err)
	}
	for i, queue := range queues {
		if exists[i].Val() > 0 {
			paused[queue] = true
		}
	}
	return paused, nil
}
