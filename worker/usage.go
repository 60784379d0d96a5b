package worker

import (
	"context"
	"maps"
	"sync"

	"github.com/headway-go/headway/reservations"
)

// usage is what a handler reports while it runs.
type usage struct {
	mu        sync.Mutex // guards what is below
	used      reservations.Tokens
	sightings []sighting
}

type usageKey struct{}

// Use reports what a task really used, from a plain asynq handler behind Limits.Middleware; typed handlers have
// Job.Use. The charges are settled by it, in every limit that has the meter, when the handler ends, however it ends.
// A meter that is not named was used as estimated. A later call replaces an earlier one for the same meter. Safe for
// concurrent use; it does nothing outside of a handler, for an unlimited task, and after the handler has ended.
func Use(ctx context.Context, used reservations.Tokens) {
	if u, ok := ctx.Value(usageKey{}).(*usage); ok {
		u.use(used)
	}
}

func (u *usage) use(used reservations.Tokens) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.used == nil {
		u.used = reservations.Tokens{}
	}
	maps.Copy(u.used, used)
}

// tokens returns the reported use; nil if nothing was reported.
func (u *usage) tokens() reservations.Tokens {
	u.mu.Lock()
	defer u.mu.Unlock()
	return maps.Clone(u.used)
}
