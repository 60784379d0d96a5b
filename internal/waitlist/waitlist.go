// Package waitlist stores tasks that wait for a rate limit, in Redis beside asynq. It holds data and changes it
// atomically; the caller decides which task starts.
//
// Each bucket has one waitlist. A waiting task has a tag, its place in the order of the bucket (start-time fair
// queueing), and keeps the tag until it begins or leaves. One process of the fleet is on duty as dispatcher: it calls
// Look, decides, and calls Promote. A promoted task has left the list and asks its bucket; then it begins (Report) or
// goes back to its place (Join).
//
// Every method that changes something runs one script, so each change is atomic. A process may die between two calls:
// a task that was promoted and did not begin goes back to its list, and the records of lost tasks expire.
package waitlist

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

const (
	// root is where all keys begin. The hash tag keeps them on one node of a cluster.
	root = "headway:{wait}:"
	// together is how many tasks one script changes at most, so that it does not hold up Redis.
	together = 128
)

// Waitlist is the waitlists of all buckets. It is safe for concurrent use.
type Waitlist struct {
	client  redis.UniversalClient
	scripts scripts
}

type scripts struct {
	join, arrive, leave, report, fail, recover, look, promote, park, resign, lists, position, timers, onDuty *redis.Script
}

// New returns the waitlists in the Redis of the client. All processes of a fleet share them.
func New(client redis.UniversalClient) *Waitlist {
	script := func(body string) *redis.Script { return redis.NewScript(preamble + body) }
	return &Waitlist{client: client, scripts: scripts{
		join: script(joinScript), arrive: script(arriveScript), leave: script(leaveScript),
		report: script(reportScript), fail: script(failScript), recover: script(recoverScript),
		look: script(order + lookScript), promote: script(promoteScript), park: script(parkScript), resign: script(resignScript),
		lists: script(describe + listsScript), position: script(describe + order + positionScript),
		timers: script(setTimersScript), onDuty: script(onDutyScript),
	}}
}

// run runs a script. The error says which operation failed.
func (w *Waitlist) run(ctx context.Context, operation string, script *redis.Script, args ...any) (*reply, error) {
	keys := []string{root + "index", root + "failed", root + "dispatcher"}
	texts, err := script.Run(ctx, w.client, keys, append([]any{root}, args...)...).StringSlice()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", operation, err)
	}
	return &reply{operation: operation, texts: texts}, nil
}
