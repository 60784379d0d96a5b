package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/headway-go/headway/cmd/internal/enqueue"
	"github.com/headway-go/headway/cmd/internal/session"
	"github.com/headway-go/headway/internal/products/dashboard"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/setup/config"
	"github.com/headway-go/headway/internal/setup/connect"
	"github.com/headway-go/headway/internal/text/loopback"
	"github.com/headway-go/headway/internal/text/redact"
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

The page is read-only. With --allow-changes it offers changes, each with what it does: pause and resume a queue, unblock
and reset a bucket, set and unset a rate, cancel a batch and send its failures again, requeue and delete a task.

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
	c.Flags().BoolVar(&changes, "allow-changes", false, "let the page change queues, limits, batches and tasks")
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
		page.AllowChanges, page.Credentials, page.AnyHost = changes, credentials, !loopback.Host(listen)
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
	case c.Empty() && !loopback.Host(listen):
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
	page.Overrides, page.Change = s.Buckets, enqueue.NewChanges(s, file, env)
	var err error
	if s.Batches, err = s.Buckets.Batches(ctx); err == nil {
		page.Dead, err = s.Buckets.Dead(ctx)
	}
	page.Batches = s.Batches
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
	values = append(values, passwordsOf(env.Getenv("REDIS_URL"))...)
	values = append(values, passwordsOf(env.Getenv("MONGODB_URI"))...)
	if dev, lives := connect.FindDev(ctx, env.Getenv); lives {
		values = append(values, passwordsOf(dev.RedisURL)...)
	}
	return redact.New(values...)
}

// passwordsOf are the passwords in the address of a service: the one before the hosts, and the ones of its options,
// such as sentinel_password. The address may have several hosts: url.Parse refuses some of them.
func passwordsOf(address string) (all []string) {
	_, rest, _ := strings.Cut(address, "://")
	hosts := rest
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		hosts = rest[:end]
	}
	_, password, _ := strings.Cut(hosts[:max(0, strings.LastIndex(hosts, "@"))], ":")
	if plain, err := url.PathUnescape(password); err == nil {
		password = plain
	}
	all = []string{password}
	_, options, _ := strings.Cut(rest, "?")
	for option := range strings.FieldsFuncSeq(options, func(r rune) bool { return r == '&' || r == ';' || r == '#' }) {
		name, value, _ := strings.Cut(option, "=")
		if plain, err := url.QueryUnescape(value); err == nil {
			value = plain
		}
		if strings.Contains(strings.ToLower(name), "password") {
			all = append(all, value)
		}
	}
	return all
}
