package asynqdb

import (
	"context"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/calls/lua"
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
	// Idle is set when the task is enqueued: a server waits for tasks of the queue, see [Server.Listen].
	Idle bool
}

// Tick is one tick of a series, which is a schedule of the fleet.
type Tick struct {
	// MS is the time of the tick, in milliseconds since 1970. Positive.
	MS int64
	// Schedule is what the series went by. Any text.
	Schedule string
}

// inner is the place of asynq's script in the scripts that are put around it.
const inner = "-- asynq's script\n"

type guardKey struct{}

// WithGuard returns a context for one Enqueue of a client of [ForClient].
func WithGuard(ctx context.Context, g *Guard) context.Context {
	return context.WithValue(ctx, guardKey{}, g)
}

// ForClient returns the Redis client of an asynq client whose Enqueue heeds [WithGuard]. Idle servers start its tasks
// at once, see [Server.Listen]: the message goes in the round trip of the task.
func ForClient(client redis.UniversalClient) redis.UniversalClient {
	return &guarded{
		UniversalClient: client, guard: lua.Source(files, "announce", "guard"),
		announce: lua.Source(files, "announce", "enqueue"),
	}
}

type guarded struct {
	redis.UniversalClient

	guard, announce string   // texts that are put around asynq's
	scripts         sync.Map // *redis.Script by its text
}

// noScriptError has a redis.Script send its text.
type noScriptError struct{}

func (noScriptError) Error() string { return "NOSCRIPT the guard needs the text of the script" }
func (noScriptError) RedisError()   {}

// EvalSha runs asynq's script. If another script is put around it, EvalSha says that the server does not know it.
func (c *guarded) EvalSha(ctx context.Context, sha1 string, keys []string, args ...any) *redis.Cmd {
	if _, ok := ctx.Value(guardKey{}).(*Guard); ok || pushes(keys) {
		return redis.NewCmdResult(nil, noScriptError{})
	}
	return c.UniversalClient.EvalSha(ctx, sha1, keys, args...)
}

// pushes reports whether a script of asynq's client pushes a task to the pending list.
func pushes(keys []string) bool {
	return len(keys) > 0 && strings.HasSuffix(keys[len(keys)-1], ":pending")
}

// around is a script of ours with asynq's in it.
func (c *guarded) around(ours, text string) *redis.Script {
	text = strings.Replace(ours, inner, text, 1)
	known, ok := c.scripts.Load(text)
	if !ok {
		known, _ = c.scripts.LoadOrStore(text, redis.NewScript(text))
	}
	script, _ := known.(*redis.Script)
	return script
}

// Eval runs asynq's script, with the guard or the message around it.
func (c *guarded) Eval(ctx context.Context, text string, keys []string, args ...any) *redis.Cmd {
	g, ok := ctx.Value(guardKey{}).(*Guard)
	switch {
	case !ok && pushes(keys):
		return c.around(c.announce, text).Run(ctx, c.UniversalClient, keys, args...)
	case !ok:
		return c.UniversalClient.Eval(ctx, text, keys, args...)
	}
	keys = append(keys, uniqueKey(g.Queue), seriesKey(g.Queue))
	args = append(args, keysOf(g.Queue).tasks(), g.ID, g.Unique, g.Series, g.Tick.MS, g.Tick.Schedule)
	cmd := c.around(c.guard, text).Run(ctx, c.UniversalClient, keys, args...)
	if cmd.Err() != nil {
		return cmd
	}
	switch answer := cmd.Val().(type) {
	case string:
		g.Holder = answer
	case []any:
		enqueued, _ := answer[0].(int64)
		idle, _ := answer[1].(int64)
		g.Idle = idle > 0
		return redis.NewCmdResult(enqueued, nil)
	}
	return redis.NewCmdResult(int64(0), nil)
}

// The keys share the slot of the queue in a Redis cluster.
func uniqueKey(queue string) string { return "headway:unique:{" + queue + "}" }
func seriesKey(queue string) string { return "headway:recurring:{" + queue + "}" }
