// Package waitlist stores tasks that wait for a rate limit, in Redis beside asynq. It stores data and changes it
// atomically. The caller decides which task starts.
//
// Each bucket has one waitlist. A waiting task has a tag: its place in the order of the bucket (start-time fair
// queueing). The task keeps the tag until it begins or leaves. One process of the fleet is on duty as dispatcher: it
// calls Look, decides, and calls Promote. A promoted task has left the list and asks its bucket. Then it begins
// (Report) or goes back to its place (Join).
//
// Every method that changes something runs one script, so each change is atomic. A process may die between two calls:
// a promoted task that does not begin goes back to its list, and the records of lost tasks expire.
package waitlist

import (
	"context"
	"embed"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/lua"
)

const (
	// root is the prefix of all keys. Its hash tag keeps them on one node of a cluster.
	root = "headway:{wait}:"
	// together is the largest number of tasks that one script changes, so that it does not block Redis for long.
	together = 128
)

//go:embed lua
var files embed.FS

// Waitlist holds the waitlists of all buckets. It is safe for concurrent use.
type Waitlist struct {
	client  redis.UniversalClient
	scripts scripts
}

type scripts struct {
	join, arrive, leave, report, fail, recover, look, promote, park, resign, lists, position *redis.Script

	timers, onDuty, keep, resume, mend *redis.Script
}

// New returns the waitlists in the Redis of the client. All processes of a fleet share them.
func New(client redis.UniversalClient) *Waitlist {
	script := func(names ...string) *redis.Script {
		return lua.Script(files, append([]string{"preamble"}, names...)...)
	}
	return &Waitlist{client: client, scripts: scripts{
		join: script("reported", "advance", "join"), report: script("reported", "report"),
		arrive: script("arrive"), leave: script("leave"),
		fail: script("fail"), recover: script("recover"), look: script("lanes", "ring", "look"),
		promote: script("advance", "promote"), park: script("park"), resign: script("resign"),
		lists:    script("describe", "lists"),
		position: script("describe", "lanes", "position"), timers: script("timers"), onDuty: script("on_duty"),
		keep: script("keep"), resume: script("resume"), mend: lua.Script(files, "mend"),
	}}
}

// run runs a script, once more if it met a key of another type. The error of the reply names the operation that failed.
func (w *Waitlist) run(ctx context.Context, operation string, script *redis.Script, args ...any) *reply {
	keys := []string{root + "index", root + "failed", root + "dispatcher"}
	args = append([]any{root}, args...)
	texts, err := script.Run(ctx, w.client, keys, args...).StringSlice()
	if err != nil && strings.Contains(err.Error(), "WRONGTYPE") { // before Redis 7 not a prefix, as it comes from a script
		if err = w.mend(ctx, keys); err == nil {
			texts, err = script.Run(ctx, w.client, keys, args...).StringSlice()
		}
	}
	r := &reply{operation: operation, texts: texts}
	r.failed(err)
	return r
}

// mend deletes all keys of another type.
func (w *Waitlist) mend(ctx context.Context, keys []string) error {
	for cursor := "0"; ; {
		page, err := w.scripts.mend.Run(ctx, w.client, keys, root, cursor).StringSlice()
		if err != nil {
			return err //nolint:wrapcheck // the caller says what failed
		}
		if cursor = page[0]; cursor == "0" {
			return nil
		}
	}
}
