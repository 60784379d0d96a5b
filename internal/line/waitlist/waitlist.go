// Package waitlist stores tasks that wait for a rate limit, in Redis beside asynq. It stores data and changes it
// atomically. The caller decides which task starts.
//
// Each bucket has one waitlist. Tasks that come back go first. All others take turns: the classes of the bucket, in a
// class its tenants, in a tenant its flows (see ordered). One process of the fleet is on duty as dispatcher: it calls
// Look, decides, and calls Promote. A promoted task has left the list and asks its bucket. Then it begins (Report) or
// comes back (Join).
//
// Every method that changes something runs one script, so each change is atomic. A process may die between two calls:
// a promoted task that does not begin goes back to its list, and the records of lost tasks expire.
package waitlist

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/internal/calls/lua"
)

const (
	// root is the prefix of all keys. Its hash tag keeps them on one node of a cluster.
	root = "headway:{wait}:"
	// together is the largest number of tasks that one script changes, so that it does not block Redis for long.
	together = 128
	// BeginWithin is how long a promoted task has to begin. Then it goes back to its list.
	BeginWithin = 5 * time.Second
)

//go:embed lua
var files embed.FS

// Waitlist holds the waitlists of all buckets. It is safe for concurrent use.
type Waitlist struct {
	client  redis.UniversalClient
	scripts scripts
}

type scripts struct {
	join, leave, report, fail, recover, look, promote, park, resign, timers, keep, resume, mend *redis.Script

	// These read, and change nothing.
	arrive, lists, heads, position, onDuty *redis.Script
}

// New returns the waitlists in the Redis of the client. All processes of a fleet share them.
func New(client redis.UniversalClient) *Waitlist {
	script := func(names ...string) *redis.Script {
		return lua.Script(files, append([]string{"preamble", "places"}, names...)...)
	}
	return &Waitlist{client: client, scripts: scripts{
		join: script("reported", "advance", "join"), report: script("reported", "report"), leave: script("leave"),
		fail: script("fail"), recover: script("recover"), look: script("lanes", "ring", "look"),
		promote: script("advance", "promote"), park: script("park"), resign: script("resign"), timers: script("timers"),
		keep: script("keep"), resume: script("resume"), mend: lua.Script(files, "mend"),
		arrive: script("arrive"), lists: script("lists"), heads: script("lanes", "heads"),
		position: script("lanes", "position"), onDuty: script("on_duty"),
	}}
}

// args are the arguments of a script, by name.
type args map[string]any

// run runs a script that changes waitlists, once more if it met a key of another type. The error names the operation.
func (w *Waitlist) run(ctx context.Context, operation string, script *redis.Script, a args, answer any) error {
	err := w.read(ctx, operation, script, a, answer)
	// Before Redis 7 it is no prefix, because it comes from a script.
	if err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
		return err
	}
	if mended := w.mend(ctx); mended != nil {
		return fmt.Errorf("%s: %w", operation, mended)
	}
	return w.read(ctx, operation, script, a, answer)
}

// read runs a script, and decodes its answer unless that is not wanted.
func (w *Waitlist) read(ctx context.Context, operation string, script *redis.Script, a args, answer any) error {
	text, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("%s: %w", operation, err)
	}
	got, err := script.Run(ctx, w.client, keys(), root, text).Text()
	if err == nil && answer != nil {
		err = json.Unmarshal([]byte(got), answer)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", operation, err)
	}
	return nil
}

// keys are the keys that each script names, so that a cluster finds the node.
func keys() []string { return []string{root + "index", root + "failed", root + "dispatcher"} }

// mend deletes all keys of another type.
func (w *Waitlist) mend(ctx context.Context) error {
	for cursor := "0"; ; {
		next, err := w.scripts.mend.Run(ctx, w.client, keys(), root, cursor).Text()
		if err != nil {
			return err //nolint:wrapcheck // the caller says what failed
		}
		if cursor = next; cursor == "0" {
			return nil
		}
	}
}

// micros is a time or a duration of a script: microseconds, as text, because cjson rounds large numbers.
type micros int64

// MarshalText implements encoding.TextMarshaler.
func (m micros) MarshalText() ([]byte, error) { return strconv.AppendInt(nil, int64(m), 10), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *micros) UnmarshalText(text []byte) (err error) {
	*(*int64)(m), err = strconv.ParseInt(string(text), 10, 64)
	return err //nolint:wrapcheck // the caller names the operation
}

func (m micros) duration() time.Duration { return time.Duration(m) * time.Microsecond }

// moment is the time that m stands for. 0 is the zero time.
func (m micros) moment() time.Time {
	if m == 0 {
		return time.Time{}
	}
	return time.UnixMicro(int64(m)).UTC()
}
