package dashboard

import (
	"context"
	"log/slog"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/deadtasks"
	"github.com/headway-go/headway/internal/batches"
	"github.com/headway-go/headway/internal/overview"
	"github.com/headway-go/headway/internal/redact"
)

// Config says what a page shows and what it may change.
type Config struct {
	// Reader reads limits and waitlists, Client the queues. Both are required, and stay the caller's.
	Reader overview.Reader
	Client redis.UniversalClient
	// Batches and Dead are nil without MongoDB: then the page shows asynq's archive, and no batches.
	Batches *batches.Store
	Dead    *deadtasks.Store
	// Refresh has the limiter go by the limits of the fleet before each look. Nil where the limiter does so itself.
	Refresh func(context.Context) error
	// AllowChanges allows to pause and resume queues, and to requeue dead tasks.
	AllowChanges bool
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
