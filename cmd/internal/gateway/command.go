package gateway

import (
	"context"
	"fmt"
	"net"

	"github.com/spf13/cobra"

	"github.com/headway-go/headway/cmd/internal/session"
	"github.com/headway-go/headway/internal/cli"
	"github.com/headway-go/headway/internal/config"
	live "github.com/headway-go/headway/internal/gateway"
	"github.com/headway-go/headway/internal/keys"
	"github.com/headway-go/headway/internal/period"
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

A caller says how long it waits by Headway-Start-By (30s, or a time), else its client's time-out counts. docs/gateway.md
has more.`,
		Example: `  headway gateway
  headway gateway --listen 127.0.0.1:9000 --limit openai`,
	}
	c.Flags().StringVar(&s.File, "config", config.FileDefault, "the `file` with the limits and providers")
	c.Flags().StringVar(&listen, "listen", Address, "the `address` to listen on")
	c.Flags().StringVar(&s.Limit, "limit", "", "the `LIMIT[:KEY]` of calls whose model no provider lists")
	s.MaxHold = live.MaxHoldDefault
	c.Flags().Var((*period.Flag)(&s.MaxHold), "max-hold", "how long a call waits at most")
	c.Flags().Int64Var(&s.MaxBody, "max-body", live.MaxBodyDefault, "the largest request, in `bytes`")
	c.Flags().BoolVar(&s.Large, "allow-large", false,
		"let through calls that reserve more than a capacity: each waits for a full bucket, and others until it is paid back")
	c.Flags().IntVar(&s.Connections, "max-connections", connectionsDefault, "connections at once; 0 means any number")
	c.Flags().StringVar(&s.Cert, "tls-cert", "", "the `file` with the certificate, for TLS")
	c.Flags().StringVar(&s.Key, "tls-key", "", "the `file` with the key of the certificate")
	c.Flags().StringVar(&level, "log-level", "info", "debug, info, warn or error")
	c.Flags().StringVar(&format, "log-format", "text", "text or json")
	c.RunE = func(c *cobra.Command, _ []string) error {
		logger, _, err := cli.NewLogger(env.Err, level, format)
		if err != nil {
			return err
		}
		s.Logger = logger
		return s.run(c.Context(), env, listen)
	}
	return c
}

// run serves at an address until ctx ends.
func (s Settings) run(ctx context.Context, env cli.Environment, listen string) error {
	if (s.Cert == "") != (s.Key == "") {
		return cli.Usage("--tls-cert and --tls-key belong together: one of them is missing")
	}
	if s.MaxHold <= 0 || s.MaxBody <= 0 || s.Connections < 0 {
		return cli.Usage("--max-hold and --max-body must be above zero, and --max-connections not negative")
	}
	opened, err := session.Load(ctx, env, s.File, session.Needs{})
	if err != nil {
		return err
	}
	defer opened.Close(ctx)
	if s.Keys, err = keys.Open(ctx, opened.Buckets.Keys(), cli.OnLoopback(listen)); err != nil {
		return err
	}
	if !cli.OnLoopback(listen) && s.Keys.Empty() {
		return cli.Usage("--listen %s is not loopback, and there is no key: everybody could call; make one by "+
			"`headway keys create`", listen)
	}
	s.ShutdownTimeout = opened.Config.ShutdownTimeout
	on, err := cli.Listen(ctx, listen)
	if err != nil {
		return err
	}
	fmt.Fprintf(env.Err, "the gateway is at %s, until Ctrl-C: base_url=%s\n", on.Addr(), s.baseURL(on))
	return Serve(ctx, on, opened, s, env)
}

// baseURL is what a client of OpenAI needs.
func (s Settings) baseURL(on net.Listener) string {
	if s.Cert != "" {
		return "https://" + on.Addr().String() + "/v1"
	}
	return "http://" + on.Addr().String() + "/v1"
}
