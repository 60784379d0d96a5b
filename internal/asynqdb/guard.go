package asynqdb

import (
	"context"
	"fmt"
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

// guardScript is put around asynq's script, which has its own keys and arguments before these:
//
//	KEYS[-2]  -> hash of the unique keys of the queue: the ID of the last task of each.
//	KEYS[-1]  -> hash of the series of the queue: the last tick of each, as "milliseconds schedule".
//	ARGV[-6]  -> prefix of asynq's task keys.
//	ARGV[-5]  -> ID of the task.
//	ARGV[-4]  -> unique key, or empty.
//	ARGV[-3]  -> series, or empty.
//	ARGV[-2]  -> milliseconds of the tick.
//	ARGV[-1]  -> schedule.
//
// Output: 0 for a refused task, or the ID of the task that has the key; else the output of asynq's script.
//
// Each new unique task also deletes two keys, drawn at random, whose tasks have ended. So the hash stays about as
// long as the list of tasks that have not ended.
const guardScript = `
local unique, series = KEYS[#KEYS - 1], KEYS[#KEYS]
local prefix, id, key = ARGV[#ARGV - 5], ARGV[#ARGV - 4], ARGV[#ARGV - 3]
local name, tick, schedule = ARGV[#ARGV - 2], ARGV[#ARGV - 1], ARGV[#ARGV]
local function lives(task)
	local state = redis.call("HGET", prefix .. task, "state")
	return state and state ~= "completed" and state ~= "archived"
end
local function store()
	if name ~= "" then
		redis.call("HSET", series, name, tick .. " " .. schedule)
	end
end
local function enqueue()
%s
end
if name ~= "" then
	local last = string.match(redis.call("HGET", series, name) or "", "^%%d+")
	if last and tonumber(last) >= tonumber(tick) then
		return 0
	end
end
if key ~= "" then
	local holder = redis.call("HGET", unique, key)
	if holder and lives(holder) then
		store()
		return holder
	end
end
local n = enqueue()
store()
if n == 1 and key ~= "" then
	redis.call("HSET", unique, key, id)
	local some = redis.pcall("HRANDFIELD", unique, 2)
	for i = 1, #some do
		if not lives(redis.call("HGET", unique, some[i])) then
			redis.call("HDEL", unique, some[i])
		end
	end
end
return n
`

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
		known, _ = c.scripts.LoadOrStore(text, redis.NewScript(fmt.Sprintf(guardScript, text)))
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
