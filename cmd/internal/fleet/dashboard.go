package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/headway-go/headway/cmd/internal/session"
	"github.com/headway-go/headway/internal/cli"
	"github.com/headway-go/headway/internal/config"
	"github.com/headway-go/headway/internal/connect"
	"github.com/headway-go/headway/internal/dashboard"
	"github.com/headway-go/headway/internal/redact"
)

// pageAddress is where the page is served unless a flag says otherwise.
const pageAddress = "127.0.0.1:8383"

func dashboardCommand(env cli.Environment) *cobra.Command {
	var file, listen string
	var changes bool
	c := &cobra.Command{
		Use:   "dashboard",
		Short: "Serve a page that shows the fleet: what is stuck and why, limits, tasks, batches, queues",
		Long: `Dashboard serves a page on loopback. The page shows limits with their waitlists, the path of one task,
batches, dead tasks and queues. It reads what the fleet keeps in Redis and MongoDB, and headway.yaml again when that
changes. It needs no JavaScript; with it, the page is live.

The page is read-only. With --allow-changes it pauses and resumes queues, and requeues dead tasks.

To change something, or to listen elsewhere than on loopback, the page needs credentials from the environment:
  HEADWAY_DASHBOARD_USER      the user that signs in (basic authentication)
  HEADWAY_DASHBOARD_PASSWORD  the user's password
  HEADWAY_DASHBOARD_TOKEN     the token of a proxy: "Authorization: Bearer TOKEN"
The page speaks HTTP: elsewhere than on loopback, put a proxy with TLS in front of it.`,
		Example: `  headway dashboard
  headway dashboard --listen 127.0.0.1:9000
  headway dashboard --allow-changes`,
	}
	configFlag(c, &file)
	c.Flags().StringVar(&listen, "listen", pageAddress, "the `address` to listen on")
	c.Flags().BoolVar(&changes, "allow-changes", false, "let the page pause and resume queues and requeue dead tasks")
	c.RunE = func(c *cobra.Command, _ []string) error {
		credentials, err := pageCredentials(env, listen, changes)
		if err != nil {
			return err
		}
		s, err := session.Load(c.Context(), env, file, session.Needs{})
		if err != nil {
			return err
		}
		defer s.Close(c.Context())
		page, err := newPage(c.Context(), s, file, env)
		if err != nil {
			return err
		}
		page.AllowChanges, page.Credentials, page.AnyHost = changes, credentials, !cli.OnLoopback(listen)
		page.Logger = slog.New(slog.NewTextHandler(env.Err, nil))
		server, err := dashboard.New(page)
		if err != nil {
			return &cli.UsageError{Err: err}
		}
		on, err := cli.Listen(c.Context(), listen)
		if err != nil {
			return err
		}
		fmt.Fprintf(env.Err, "the page is at http://%s, until Ctrl-C\n", on.Addr())
		return server.Run(c.Context(), on)
	}
	return c
}

// pageCredentials returns the credentials from the environment. Without any, the page must be read-only and on
// loopback.
func pageCredentials(env cli.Environment, listen string, changes bool) (dashboard.Credentials, error) {
	c := dashboard.Credentials{
		User: env.Getenv("HEADWAY_DASHBOARD_USER"), Password: env.Getenv("HEADWAY_DASHBOARD_PASSWORD"),
		Token: env.Getenv("HEADWAY_DASHBOARD_TOKEN"),
	}
	err := c.Validate()
	const set = "set HEADWAY_DASHBOARD_USER and HEADWAY_DASHBOARD_PASSWORD, or HEADWAY_DASHBOARD_TOKEN"
	switch {
	case err != nil:
	case c.Empty() && changes:
		err = errors.New("--allow-changes needs credentials: " + set)
	case c.Empty() && !cli.OnLoopback(listen):
		err = fmt.Errorf("--listen %s is not loopback, so the page needs credentials: %s", listen, set)
	}
	if err != nil {
		return c, &cli.UsageError{Err: err}
	}
	return c, nil
}

// newPage is the configuration of a page for a fleet, read-only and for loopback.
func newPage(ctx context.Context, s *session.Session, file string, env cli.Environment) (dashboard.Config, error) {
	page := dashboard.Config{
		Reader: s.Reader(), Client: s.Queue, Refresh: s.Follow(file), Secrets: secretsOf(ctx, env, s.Config),
	}
	if !s.Buckets.InMongo() {
		return page, nil
	}
	var err error
	if page.Batches, err = s.Buckets.Batches(ctx); err == nil {
		page.Dead, err = s.Buckets.Dead(ctx)
	}
	return page, err
}

// secretsOf are the values of the environment that no page may show.
func secretsOf(ctx context.Context, env cli.Environment, settings config.Config) redact.Secrets {
	values := redact.Proxies()
	names := []string{"OPENAI_API_KEY", "HEADWAY_DASHBOARD_PASSWORD", "HEADWAY_DASHBOARD_TOKEN"}
	for name := range settings.HTTP.Secrets {
		names = append(names, name)
	}
	for _, p := range settings.Providers {
		names = append(names, p.Key)
	}
	for _, name := range names {
		values = append(values, env.Getenv(name))
	}
	values = append(values, passwordOf(env.Getenv("REDIS_URL")), passwordOf(env.Getenv("MONGODB_URI")))
	if dev, lives := connect.FindDev(ctx, env.Getenv); lives {
		values = append(values, passwordOf(dev.RedisURL))
	}
	return redact.New(values...)
}

// passwordOf is the password in the address of a service, which may have several hosts: url.Parse refuses some of them.
func passwordOf(address string) string {
	_, rest, _ := strings.Cut(address, "://")
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	_, password, _ := strings.Cut(rest[:max(0, strings.LastIndex(rest, "@"))], ":")
	if plain, err := url.PathUnescape(password); err == nil {
		return plain
	}
	return password
}
