package asynqdb

import (
	"context"
	_ "embed"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Guard decides, in the script in which asynq enqueues a task, whether it does: what the guard checks, what it stores
// and the task itself are one atomic change. A refused task is an asynq.ErrTaskIDConflict to asynq's client.
type Guard struct {
	// Queue and ID identify the task.
	Queue, ID string
	// Unique refuses the task while the last task that was enqueued with this key waits or runs. Empty refuses none.
	Unique string
	// Tick refuses the task unless it is later than the last tick that was stored under Series. Then it is stored.
	// Both are empty for other tasks.
	Series string
	Tick   Tick

	// Holder is set when Unique refuses the task: the ID of the task that has the key.
	Holder string
}

// Tick is one tick of a series, which is a schedule of the fleet.
type Tick struct {
	// MS is the time of the tick, in milliseconds since 1970. Positive.
	MS int64
	// Schedule is what the series went by. Any text.
	Schedule string
}

//go:embed lua/guard.lua
var guardScript string

// inner is the place of asynq's script in guardScript.
const inner = "-- asynq's script\n"

type guardKey struct{}

// WithGuard returns a context for one Enqueue of a client of [ForClient]. Without Unique and Series it returns ctx.
func WithGuard(ctx context.Context, g *Guard) context.Context {
	if g.Unique == "" && g.Series == "" {
		return ctx
	}
	return context.WithValue(ctx, guardKey{}, g)
}

// ForClient returns the Redis client of an asynq client whose Enqueue heeds [WithGuard].
func ForClient(client redis.UniversalClient) redis.UniversalClient {
	return &guarded{UniversalClient: client}
}

type guarded struct {
	redis.UniversalClient

	scripts sync.Map // *redis.Script by asynq's text
}

// noScriptError has a redis.Script send its text.
type noScriptError struct{}

func (noScriptError) Error() string { return "NOSCRIPT the guard needs the text of the script" }
func (noScriptError) RedisError()   {}

// EvalSha runs asynq's script, and with a guard says that the server does not know it.
func (c *guarded) EvalSha(ctx context.Context, sha1 string, keys []string, args ...any) *redis.Cmd {
	if _, ok := ctx.Value(guardKey{}).(*Guard); ok {
		return redis.NewCmdResult(nil, noScriptError{})
	}
	return c.UniversalClient.EvalSha(ctx, sha1, keys, args...)
}

// Eval runs asynq's script, with the guard around it.
func (c *guarded) Eval(ctx context.Context, text string, keys []string, args ...any) *redis.Cmd {
	g, ok := ctx.Value(guardKey{}).(*Guard)
	if !ok {
		return c.UniversalClient.Eval(ctx, text, keys, args...)
	}
	known, ok := c.scripts.Load(text)
	if !ok {
		known, _ = c.scripts.LoadOrStore(text, redis.NewScript(strings.Replace(guardScript, inner, text, 1)))
	}
	script, _ := known.(*redis.Script)
	keys = append(keys, uniqueKey(g.Queue), seriesKey(g.Queue))
	args = append(args, keysOf(g.Queue).tasks(), g.ID, g.Unique, g.Series, g.Tick.MS, g.Tick.Schedule)
	cmd := script.Run(ctx, c.UniversalClient, keys, args...)
	if holder, refused := cmd.Val().(string); refused && cmd.Err() == nil {
		g.Holder = holder
		return redis.NewCmdResult(int64(0), nil)
	}
	return cmd
}

// The keys share the slot of the queue in a Redis cluster.
func uniqueKey(queue string) string { return "headway:unique:{" + queue + "}" }
func seriesKey(queue string) string { return "headway:recurring:{" + queue + "}" }
