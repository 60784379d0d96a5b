// Package dashboard serves the page of `headway dashboard` in a program of your own: what is stuck and why, limits with
// their waitlists, the path of one task, batches, dead tasks and queues. See the example of [Handler].
package dashboard

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/redis/go-redis/v9"

	"github.com/headway-go/headway/deadtasks"
	"github.com/headway-go/headway/internal/documents"
	"github.com/headway-go/headway/internal/documents/batches"
	"github.com/headway-go/headway/internal/products/dashboard"
	"github.com/headway-go/headway/internal/products/explained"
	"github.com/headway-go/headway/internal/state"
	"github.com/headway-go/headway/internal/text/redact"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/scheduler"
)

// ErrCredentials is matched by the error of a Config whose credentials are missing, incomplete or too short.
var ErrCredentials = dashboard.ErrCredentials

// Config says what the page shows and what it may change. The zero value is a read-only page for readers on this
// machine.
type Config struct {
	// AllowChanges lets readers change something: pause queues, unblock limits, delete tasks. It needs credentials, or
	// Guarded.
	AllowChanges bool
	// User and Password are for basic authentication; Token is what a proxy sends as `Authorization: Bearer TOKEN`. A
	// request needs one of both, where they are set. A password and a token have at least 12 characters.
	User, Password, Token string
	// Guarded says that the program itself decides which requests reach the handler. Without it and without credentials,
	// the page answers requests to loopback only.
	Guarded bool
	// Records has the batches and the dead tasks: redisstore.Documents or mongostore.Documents. Nil shows no batches, and
	// asynq's archive in place of the dead tasks.
	Records documents.Store
	// Rates stores the rates that readers set, where the fleet follows them: a redisstore.Store or a mongostore.Store.
	// Nil offers no rate to set.
	Rates Rates
	// Secrets are texts that the page shows as ***, e.g. keys of an API. Texts of fewer than 6 bytes are shown.
	Secrets []string
	// Logger gets changes and wrong logins. Nil discards them.
	Logger *slog.Logger
}

// Rates stores the rates that people set while the fleet runs.
type Rates interface {
	SetOverride(ctx context.Context, set reservations.Override) error
	UnsetOverride(ctx context.Context, limit, key, meter string) (there bool, err error)
}

// Handler returns the page of the fleet on this Redis, with the limits of the limiter. Until ctx ends it stores samples
// of the last hour in Redis. The error matches [ErrCredentials].
//
// Links of the page are relative. To serve it below a path, take the path away: mux.Handle("/fleet/",
// http.StripPrefix("/fleet", page)). The clients stay the caller's, and must outlive ctx.
func Handler(
	ctx context.Context, client redis.UniversalClient, limiter *reservations.Limiter, config Config,
) (http.Handler, error) {
	credentials := dashboard.Credentials{User: config.User, Password: config.Password, Token: config.Token}
	if config.AllowChanges && credentials.Empty() && !config.Guarded {
		return nil, fmt.Errorf("%w: AllowChanges needs User and Password, or Token, or Guarded", ErrCredentials)
	}
	s, err := scheduler.New(client, limiter, scheduler.Config{Logger: config.Logger})
	if err != nil {
		return nil, err
	}
	page := dashboard.Config{
		Reader: state.Reader{Limiter: limiter, Scheduler: s}, Client: client, AllowChanges: config.AllowChanges,
		Credentials: credentials, AnyHost: config.Guarded || !credentials.Empty(), Secrets: redact.New(config.Secrets...),
		Overrides: config.Rates, Logger: config.Logger,
	}
	if config.Records != nil {
		page.Batches = batches.New(config.Records, batches.Options{})
		page.Dead = deadtasks.New(config.Records, deadtasks.Options{})
		page.Reader.Names = explained.Names(page.Batches)
	}
	server, err := dashboard.New(page)
	if err != nil {
		return nil, err
	}
	go server.Record(ctx)
	return server.Handler(), nil
}
