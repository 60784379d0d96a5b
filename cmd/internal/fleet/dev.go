package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/headway-go/headway/cmd/internal/gateway"
	"github.com/headway-go/headway/cmd/internal/session"
	"github.com/headway-go/headway/internal/documents/keys"
	"github.com/headway-go/headway/internal/products/dashboard"
	"github.com/headway-go/headway/internal/products/embedded"
	live "github.com/headway-go/headway/internal/products/gateway"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/setup/config"
	"github.com/headway-go/headway/internal/setup/connect"
	"github.com/headway-go/headway/internal/text/loopback"
	"github.com/headway-go/headway/internal/text/shell"
	"github.com/headway-go/headway/reservations"
	"github.com/headway-go/headway/reservations/redisstore"
)

func devCommand(env cli.Environment) *cobra.Command {
	var s runSettings
	c := &cobra.Command{
		Use:   "dev",
		Short: "Run everything in one process: queue, buckets, provider, worker and page; needs no services",
		Long: `Dev needs no services and no key. It runs an embedded Redis with the queue and the buckets, a provider on
loopback that enforces the limits of headway.yaml, a worker, a gateway for clients in any language, and the page. When
headway.yaml changes, all of them go by it at once. Without the file, dev has the settings that "headway init" writes.

No call leaves the machine. The provider stands in for each of the providers of headway.yaml. HTTP requests to hosts of
this machine are made; requests to other hosts of http.allow_hosts get an answer that says so. Keys and http.secrets
have no real value. Recurring tasks are not enqueued. OTEL_EXPORTER_OTLP_ENDPOINT counts only if it points to this
machine, MONGODB_URI only if it has one host, of this machine; other members of its replica set are not called.
--allow-real-calls lifts all of that, except for the provider.

In another terminal "enqueue" and "worker" find it by themselves, where REDIS_URL is not set. Such a worker makes real
calls. A worker of your own may serve the same queues: dev returns tasks of other types than chat and HTTP requests, and
that worker gets them some seconds later. Batches, results and records of dead tasks are there too: "batch", "results",
"dead list" and "dead requeue" need nothing else. All is in memory, and gone when dev ends. With MONGODB_URI the records
are in that database, and the buckets as well.

The page may change things, and needs no credentials: it is on loopback, and nothing in it lasts.`,
		Example: `  headway dev
  headway enqueue "Why is the sky blue?" --limit openai    # in another terminal
  headway batch examples/godoc.jsonl --limit openai --out out.jsonl`,
	}
	configFlag(c, &s.file)
	listen := pageFlag(c)
	serve := loopbackFlag(c, "gateway", gateway.Address, "the gateway, for clients in any language")
	c.Flags().StringVar(&s.logLevel, "log-level", "warn", "debug, info, warn or error")
	c.Flags().StringVar(&s.logFormat, "log-format", "text", "text or json")
	lifted := c.Flags().Bool("allow-real-calls", false,
		"make HTTP requests with their secrets, enqueue recurring tasks, and use MongoDB and a collector elsewhere")
	c.RunE = func(c *cobra.Command, _ []string) error {
		s.confined = !*lifted
		return dev(c.Context(), s, listen, serve, env)
	}
	return c
}

// pageListener listens for a page.
type pageListener func(context.Context) (net.Listener, error)

// pageFlag adds --listen, for a page that needs no credentials: on loopback. The default moves to a free port if it is
// taken.
func pageFlag(c *cobra.Command) pageListener {
	return loopbackFlag(c, "listen", pageAddress, "the page, where everybody may change things")
}

// loopbackFlag adds a flag for something that listens on loopback. The default moves to a free port if it is taken.
func loopbackFlag(c *cobra.Command, name, usual, what string) pageListener {
	address := c.Flags().String(name, usual, "the loopback `address` of "+what+"; the default moves if it is taken")
	return func(ctx context.Context) (net.Listener, error) {
		if !loopback.Host(*address) {
			return nil, cli.Usage("--%s %s must be an address of loopback: it asks for no credentials", name, *address)
		}
		on, err := cli.Listen(ctx, *address)
		if err != nil && !c.Flags().Changed(name) {
			return cli.Listen(ctx, "127.0.0.1:0")
		}
		return on, err
	}
}

// dev runs everything until ctx ends.
func dev(ctx context.Context, s runSettings, listen, serve pageListener, env cli.Environment) error {
	if running, lives := connect.FindDev(ctx, env.Getenv); lives {
		return cli.Usage("`headway dev` runs already, as process %d, with its page at %s: end it first", running.PID,
			running.Page)
	}
	on, err := listen(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = on.Close() }()
	calls, err := serve(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = calls.Close() }()
	d := &devFleet{}
	defer func() { _ = os.RemoveAll(d.folder) }()
	settings, err := d.load(s.file)
	if err != nil {
		return err
	}
	s.file = d.file
	redis, err := embedded.Start()
	if err != nil {
		return err
	}
	defer redis.Close()
	if err = begin(ctx, redis); err != nil {
		return err
	}
	provider, err := startDevProvider(settings)
	if err != nil {
		return err
	}
	defer provider.close()
	remove, err := connect.Dev{RedisURL: redis.URL(), Page: "http://" + on.Addr().String(), PID: os.Getpid()}.Write(
		ctx, env.Getenv)
	if err != nil {
		return fmt.Errorf("announce this fleet to other commands: %w", err)
	}
	defer remove()
	d.redis, d.provider = redis, provider
	d.welcome(env, on.Addr().String(), calls.Addr().String(), settings, s.confined)
	env.Getenv = d.getenv(env.Getenv)
	if s.confined {
		env.Getenv = confined(settings, env.Getenv)
	}
	return d.run(ctx, s, on, calls, env)
}

// load reads the settings. Without the default file they are what `headway init` writes.
func (d *devFleet) load(file string) (c config.Config, err error) {
	d.file, d.shown = file, file+", in force as soon as you save it"
	c, err = config.Load(file)
	if !session.FileMissing(err, file) {
		return c, err
	}
	if d.folder, err = os.MkdirTemp("", "headway-dev-"); err != nil {
		return c, fmt.Errorf("make a folder for the built-in settings: %w", err)
	}
	d.file, d.shown = filepath.Join(d.folder, file), "built in; `headway init` writes them, to change them"
	if err = os.WriteFile(d.file, initial, 0o600); err != nil {
		return c, fmt.Errorf("write the built-in settings: %w", err)
	}
	return config.Load(d.file)
}

// begin says that the Redis is new: no call of before can be in flight.
func begin(ctx context.Context, redis *embedded.Redis) error {
	client := redis.Connect()
	defer func() { _ = client.Close() }()
	_, err := redisstore.OpenNew(ctx, client)
	return err
}

// devFleet is the services of `headway dev`.
type devFleet struct {
	folder   string // of the built-in settings; empty where there is a file
	file     string
	shown    string // what people read of the file
	redis    *embedded.Redis
	provider *devProvider
}

// getenv is the environment inside: the embedded Redis and the provider, and no key of a real one.
func (d *devFleet) getenv(outside func(string) string) func(string) string {
	return func(name string) string {
		switch name {
		case "REDIS_URL":
			return d.redis.URL()
		case "OPENAI_BASE_URL":
			return d.provider.url("")
		case "OPENAI_API_KEY":
			return devSecret
		default:
			return outside(name)
		}
	}
}

// run runs the page, the gateway and the worker until ctx ends.
func (d *devFleet) run(ctx context.Context, s runSettings, on, calls net.Listener, env cli.Environment) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	seen, err := session.Load(ctx, env, s.file, session.Needs{})
	if err != nil {
		return err
	}
	defer seen.Close(ctx)
	page, err := newPage(ctx, seen, s.file, env)
	if err != nil {
		return err
	}
	page.AllowChanges = true
	server, err := dashboard.New(page)
	if err != nil {
		return err
	}
	changed := make(chan struct{}, 1)
	s.changed, s.standIn = changed, d.provider.url
	serving, err := session.Load(ctx, env, s.file, session.Needs{Enforces: true})
	if err != nil {
		return err
	}
	defer serving.Close(ctx)
	logger, _, err := cli.NewLogger(env.Err, s.logLevel, s.logFormat)
	if err != nil {
		return err
	}
	var group sync.WaitGroup
	var failed, unserved error
	group.Go(func() {
		unserved = d.serve(ctx, s, calls, serving, logger, env)
		cancel()
	})
	group.Go(func() {
		failed = server.Run(ctx, on)
		cancel()
	})
	group.Go(func() {
		watchFile(ctx, s.file, func() {
			d.follow(env)
			select {
			case changed <- struct{}{}:
			default: // a reload is due already
			}
		})
	})
	err = devServe(ctx, s, env)
	cancel()
	group.Wait()
	return errors.Join(err, failed, unserved)
}

// serve runs the gateway. Where no key is configured, it asks for none.
func (d *devFleet) serve(
	ctx context.Context, s runSettings, calls net.Listener, with *session.Session, log *slog.Logger, env cli.Environment,
) error {
	callers, err := keys.Open(ctx, with.Buckets.Keys(), true)
	if err != nil {
		return err
	}
	return gateway.Serve(ctx, calls, with, gateway.Settings{
		File: s.file, MaxHold: live.MaxHoldDefault, MaxBody: live.MaxBodyDefault,
		ShutdownTimeout: with.Config.ShutdownTimeout, Logger: log, StandIn: d.provider.url, Keys: callers,
	}, env)
}

// follow has the provider go by the file. The worker reports what is wrong in the file.
func (d *devFleet) follow(env cli.Environment) {
	next, err := config.Load(d.file)
	if err != nil {
		return
	}
	if err = d.provider.set(next); err != nil {
		fmt.Fprintf(env.Err, "headway: %v; nothing has changed\n", err)
		return
	}
	fmt.Fprintf(env.Err, "headway: %s has changed, and is in force\n", d.file)
}

// devServe runs a worker until ctx ends, and another one if a change of the file needs that. If that one can't start,
// devServe waits for the next change.
func devServe(ctx context.Context, s runSettings, env cli.Environment) error {
	for first := true; ; first = false {
		one, stop := context.WithCancel(ctx)
		s.restart = stop
		err := serve(one, s, env)
		stop()
		var faulty *config.Error // also if the file was changed again
		var missing *cli.UsageError
		switch {
		case ctx.Err() != nil:
			return err
		case !first && (errors.As(err, &faulty) || errors.As(err, &missing)):
			fmt.Fprintf(env.Err, "headway: %v; no worker runs until %s changes\n", err, s.file)
			select {
			case <-ctx.Done():
				return nil
			case <-s.changed:
			}
		case err != nil:
			return err
		}
	}
}

// program is how a person starts this program again: go run builds it below a folder for temporary files.
func program(path string) string {
	if strings.Contains(filepath.ToSlash(path), "/go-build") {
		return "go run ./cmd/headway"
	}
	if filepath.Base(path) == path {
		return path
	}
	if found, err := exec.LookPath(filepath.Base(path)); err == nil && found == path {
		return filepath.Base(path)
	}
	return shell.Word(path)
}

// callable is a limit of the file from which a call of a provider can take, or NAME if there is none.
func callable(c config.Config) string {
	for _, l := range c.Limits {
		slots := func(m reservations.Meter) bool { return m.Name == reservations.MeterInFlight }
		counted := quotasOf([]reservations.Limit{l}) != (quotas{}) || slices.ContainsFunc(l.Meters, slots)
		if counted && c.Providers.Check(l.Name) == nil {
			return l.Name
		}
	}
	return "NAME"
}

// welcome says what runs, and what to type next.
func (d *devFleet) welcome(env cli.Environment, page, calls string, settings config.Config, confined bool) {
	limit := callable(settings)
	var name string
	if len(settings.Providers) > 0 {
		name = "NAME"
	}
	out := screenOf(env)
	fmt.Fprintf(out, "%s\n\n", out.title("Headway runs in this process; nothing else is needed."))
	rows := [][]string{
		{"page", "http://" + page},
		{"gateway", "base_url=http://" + calls + "/v1 for clients in any language, with any key"},
		{"settings", d.shown},
		{"provider", d.provider.url(name) + ": enforces the limits, invents answers"},
		{"queue", "an embedded Redis, with results and dead tasks too: all is gone when this ends"},
	}
	if confined {
		rows = append(rows, confinedRows(settings, env.Getenv)...)
	}
	out.table(rows)
	fmt.Fprintf(out, "\nNow type in another terminal, in this folder:\n\n")
	out.table([][]string{
		{program(os.Args[0]) + ` enqueue "Why is the sky blue?" --limit ` + limit + ` --wait`},
		{program(os.Args[0]) + ` batch FILE --limit ` + limit + ` --out out.jsonl`},
		{program(os.Args[0]) + ` limits show`},
	})
	if env.Getenv("REDIS_URL") != "" {
		fmt.Fprintf(out, "\nREDIS_URL is set here. Where it is set, these commands use it: unset it there.\n")
	}
	fmt.Fprintf(out, "\nCtrl-C ends it.\n")
}
