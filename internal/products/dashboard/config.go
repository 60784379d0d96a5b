package dashboard

import (
	"context"
	"log/slog"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/deadtasks"
	"github.com/headway-go/headway/internal/documents/batches"
	"github.com/headway-go/headway/internal/state"
	"github.com/headway-go/headway/internal/text/redact"
)

// Config says what a page shows and what it may change.
type Config struct {
	// Reader reads limits and waitlists, Client the queues. Both are required, and stay the caller's.
	Reader state.Reader
	Client redis.UniversalClient
	// Batches and Dead may be nil: then the page shows asynq's archive, and no batches.
	Batches *batches.Store
	Dead    *deadtasks.Store
	// Refresh has the limiter go by the limits of the fleet before each look. Nil where the limiter does so itself.
	Refresh func(context.Context) error
	// AllowChanges allows all changes: of queues, dead and waiting tasks, buckets, rates and batches.
	AllowChanges bool
	// Overrides stores rates that are set. Nil offers none to set.
	Overrides Overrides
	// Change changes batches. Nil offers no such change.
	Change BatchChanges
	// Credentials are what a request must present. Empty ones let every request pass.
	Credentials Credentials
	// AnyHost accepts any Host header. Otherwise a request must name loopback, so that no other site can read the page
	// by a name that it points to loopback (DNS rebinding).
	AnyHost bool
	// Secrets never appear on a page.
	Secrets redact.Secrets
	// Logger logs changes and wrong logins. Nil discards them.
	Logger *slog.Logger
}
