package gateway

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/spf13/cobra"

	"github.com/headway-go/headway/cmd/internal/observe"
	"github.com/headway-go/headway/cmd/internal/session"
	"github.com/headway-go/headway/internal/documents/keys"
	"github.com/headway-go/headway/internal/products/files"
	live "github.com/headway-go/headway/internal/products/gateway"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/setup/config"
	"github.com/headway-go/headway/internal/setup/tracing"
	"github.com/headway-go/headway/internal/text/loopback"
	"github.com/headway-go/headway/internal/text/period"
)

// Address is where a gateway listens unless a flag says otherwise.
const Address = "127.0.0.1:8080"

// connectionsDefault is how many connections a gateway has at most.
const connectionsDefault = 20_000

// Commands returns `headway gateway` and `headway keys`.
func Commands(env cli.Environment) []*cobra.Command {
	return []*cobra.Command{gatewayCommand(env), keysCommand(env)}
}

func gatewayCommand(env cli.Environment) *cobra.Command {
	s := Settings{}
	var listen, level, format string
	var metrics observe.Flags
	c := &cobra.Command{
		Use:   "gateway",
		Short: "Serve the API of the provider to clients in any language, under the limits of the fleet",
		Long: `Gateway speaks the API of OpenAI, and that of Anthropic. A client changes its base_url to
http://ADDRESS/v1, and nothing else. Its calls wait in line with the tasks of the fleet, and start when the limits of
headway.yaml have room. A caller is held for so long, and sees no 429 that waiting can avoid.

Start as many as you like behind any load balancer: they keep nothing but connections. Without workers the gateways
promote the waiting calls themselves.

A call takes from the limit of the provider that lists its model (providers.*.models), else from --limit, else from the
only limit of headway.yaml. The key of a provider stays in the environment of the gateway.

While there is no key, everybody may call: so the gateway listens on loopback only. "headway keys create" makes the
first one, and from then on each caller needs a key.

The gateway also serves files and batches. Workers run the requests of a batch, under the limits of its key, with the
lowest priority. Files are stored where results are: in MongoDB, or in the memory of Redis. With --files DIR they are
on a disk, which several gateways must share; --files none serves no files and no batches.

A caller says how long it waits by Headway-Start-By (30s, or a time), else its client's time-out counts.

--metrics serves /metrics for Prometheus, and /healthz and /readyz, on loopback unless the address has another host: a
call has the queue "gateway", and its endpoint as its type. docs/gateway.md has more.`,
		Example: `  headway gateway
  headway gateway --listen 127.0.0.1:9000 --limit openai
  headway gateway --files /var/lib/headway --max-file 500000000
  headway gateway --metrics 127.0.0.1:9465`,
	}
	c.Flags().StringVar(&s.File, "config", config.FileDefault, "the `file` with the limits and providers")
	c.Flags().StringVar(&listen, "listen", Address, "the `address` to listen on")
	c.Flags().StringVar(&s.Limit, "limit", "", "the `LIMIT[:KEY]` of calls whose model no provider lists")
	s.MaxHold = live.MaxHoldDefault
	c.Flags().Var((*period.Flag)(&s.MaxHold), "max-hold", "how long a call waits at most")
	c.Flags().Int64Var(&s.MaxBody, "max-body", live.MaxBodyDefault, "the largest request, in `bytes`")
	c.Flags().Int64Var(&s.MaxMemory, "max-memory", live.MemoryDefault,
		"what the requests above 16 kB take together, in `bytes`; one without room waits for 30 s at most")
	s.addFiles(c)
	c.Flags().BoolVar(&s.Large, "allow-large", false,
		"let through calls that reserve more than a capacity: each waits for a full bucket, and others until it is paid back")
	c.Flags().IntVar(&s.Connections, "max-connections", connectionsDefault, "connections at once; 0 means any number")
	c.Flags().StringVar(&s.Cert, "tls-cert", "", "the `file` with the certificate, for TLS")
	c.Flags().StringVar(&s.Key, "tls-key", "", "the `file` with the key of the certificate")
	c.Flags().StringVar(&level, "log-level", "info", "debug, info, warn or error")
	c.Flags().StringVar(&format, "log-format", "text", "text or json")
	metrics.Add(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		logger, _, err := cli.NewLogger(env.Err, level, format)
		if err != nil {
			return err
		}
		s.Logger = logger
		return s.run(c.Context(), env, listen, metrics)
	}
	return c
}

// addFiles adds the flags of files.
func (s *Settings) addFiles(c *cobra.Command) {
	c.Flags().StringVar(&s.Files, "files", "",
		"the `folder` for the files of callers, in place of the store of results; none serves no files and no batches")
	c.Flags().Int64Var(&s.MaxFile, "max-file", 0, fmt.Sprintf(
		"the largest file, in `bytes`; 0 means %d MB, and %d MB where files are in Redis", files.MostDefault/1_000_000,
		files.MostInRedis/1_000_000))
	c.Flags().Int64Var(&s.MaxStored, "max-stored", 0, fmt.Sprintf(
		"what all files of a tenant take at most, in `bytes`; 0 means %d MB, and %d MB where files are in Redis",
		files.StoredDefault/1_000_000, files.StoredInRedis/1_000_000))
}

// run serves at an address until ctx ends.
func (s *Settings) run(ctx context.Context, env cli.Environment, listen string, metrics observe.Flags) error {
	if (s.Cert == "") != (s.Key == "") {
		return cli.Usage("--tls-cert and --tls-key belong together: one of them is missing")
	}
	if s.MaxHold <= 0 || min(s.MaxBody, s.MaxMemory) <= 0 || min(s.MaxFile, s.MaxStored) < 0 || s.Connections < 0 {
		return cli.Usage("--max-hold, --max-body and --max-memory must be above zero, --max-file, --max-stored and " +
			"--max-connections not negative")
	}
	stopTraces, err := tracing.Start(ctx, "headway-gateway", env.Getenv, s.Logger)
	if err != nil {
		return err
	}
	defer stopTraces()
	said, err := config.Load(s.File)
	if err != nil {
		return err
	}
	watch, err := observe.New(ctx, metrics, said.Limits, s.Logger)
	if err != nil {
		return err
	}
	defer watch.Close()
	opened, err := session.Open(ctx, env, said, session.Needs{
		File: s.File, Enforces: true, Mongo: watch.Mongo, Measure: watch.Measure,
	})
	if err != nil {
		return err
	}
	defer opened.Close(ctx)
	s.Events = watch.Events()
	if s.Keys, err = keys.Open(ctx, opened.Buckets.Keys(), loopback.Host(listen)); err != nil {
		return err
	}
	if !loopback.Host(listen) && s.Keys.Empty() {
		return cli.Usage("--listen %s is not loopback, and there is no key: everybody could call; make one by "+
			"`headway keys create`", listen)
	}
	stopWatching, err := watch.Serve(ctx, opened.Queue, opened.Limiter, opened.Buckets.Documents)
	if err != nil {
		return err
	}
	defer stopWatching()
	s.ShutdownTimeout = opened.Config.ShutdownTimeout
	on, err := cli.Listen(ctx, listen)
	if err != nil {
		return err
	}
	s.Announce = func() {
		fmt.Fprintf(env.Err, "the gateway is at %s, until Ctrl-C: base_url=%s\n", on.Addr(), s.baseURL(on.Addr().String()))
	}
	return Serve(ctx, on, opened, *s, env)
}

// baseURL is what a client of OpenAI needs. HOST stands for the names of a machine that listens on all its addresses.
func (s *Settings) baseURL(address string) string {
	if at, err := netip.ParseAddrPort(address); err == nil && at.Addr().IsUnspecified() {
		address = fmt.Sprintf("HOST:%d", at.Port())
	}
	if s.Cert != "" {
		return "https://" + address + "/v1"
	}
	return "http://" + address + "/v1"
}
