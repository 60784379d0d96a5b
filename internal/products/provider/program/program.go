// Package program is the program provider, which tests of processes run in a binary of their own.
package program

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"golang.org/x/term"

	"github.com/headway-go/headway/internal/products/provider"
)

// Main runs the provider by os.Args, and returns its exit code.
func Main() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "provider:", err)
		return 1
	}
	return 0
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var cfg provider.Config
	flags := flag.NewFlagSet("provider", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&cfg.Addr, "addr", provider.AddrDefault, "loopback `address` to listen on")
	flags.Float64Var(&cfg.Requests.Rate, "requests-rate", 0, "requests per second (0: not limited)")
	flags.Float64Var(&cfg.Requests.Capacity, "requests-capacity", 0, "requests at once")
	flags.Float64Var(&cfg.Tokens.Rate, "tokens-rate", 0, "tokens per second (0: not limited)")
	flags.Float64Var(&cfg.Tokens.Capacity, "tokens-capacity", 0, "tokens at once")
	flags.BoolVar(&cfg.CountUsed, "count-used", false,
		"count the prompt on arrival and the answer as it is, instead of max_tokens")
	flags.BoolVar(&cfg.KeepEstimate, "keep-estimate", false, "never correct the estimate to the real usage")
	flags.DurationVar(&cfg.Slack, "slack", provider.SlackDefault, "by how much rate each bucket is larger")
	flags.DurationVar(&cfg.MinLatency, "min-latency", provider.MinLatencyDefault, "shortest time of an answer")
	flags.DurationVar(&cfg.MaxLatency, "max-latency", provider.MaxLatencyDefault, "longest time of an answer")
	flags.Float64Var(&cfg.UsedMin, "used-min", provider.UsedMinDefault, "least share of max_tokens that is used")
	flags.Float64Var(&cfg.UsedMax, "used-max", provider.UsedMaxDefault, "largest share of max_tokens that is used")
	flags.Float64Var(&cfg.Window.Requests, "window-requests", 0, "requests in each fixed window (0: not limited)")
	flags.DurationVar(&cfg.Window.Period, "window-period", 0, "length of a fixed window")
	flags.IntVar(&cfg.InFlight, "in-flight", 0, "calls that may run at once (0: any number)")
	flags.Func("tenant", "limit of a tenant, as `name=rate/capacity` in requests per second; may be repeated",
		func(text string) error { return addTenant(&cfg, text) })
	addBlock(flags, &cfg.Block)
	addTrouble(flags, &cfg.Trouble, &cfg.Hidden)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	// A zero flag means zero. In the fields of Config zero means the default.
	if cfg.Slack == 0 {
		cfg.Slack = -1
	}
	if cfg.MinLatency == 0 {
		cfg.MinLatency = 1
		if cfg.MaxLatency == 0 {
			cfg.MinLatency = -1
		}
	}
	const least = 1e-9 // of max_tokens: none
	cfg.UsedMin, cfg.UsedMax = cmp.Or(cfg.UsedMin, least), cmp.Or(cfg.UsedMax, least)
	s, err := provider.Start(cfg)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(stdout, s.URL()); err != nil {
		return errors.Join(err, s.Close())
	}
	<-ctx.Done()
	return errors.Join(s.Close(), write(stdout, s.Report()))
}

// write prints a report: as JSON, and its summary at a terminal.
func write(to io.Writer, r provider.Report) error {
	if f, ok := to.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return summarize(to, r)
	}
	return json.NewEncoder(to).Encode(r)
}

// summarize prints what a person at a terminal asks of a report, which has a line for each request.
func summarize(w io.Writer, r provider.Report) error {
	_, err := fmt.Fprintf(w, "\nrequests %d, accepted %d, violations %d, failed %d\n"+
		"write the output to a file for the whole report as JSON\n", r.Requests, r.Accepted, r.Violations, r.Failed)
	return err
}

func addBlock(flags *flag.FlagSet, block *provider.Block) {
	flags.IntVar(&block.Number, "block-number", 0, "refuse this request with a 429 that names a time (0: none)")
	flags.DurationVar(&block.For, "block-for", 0, "the time that the 429 names")
}

func addTrouble(flags *flag.FlagSet, trouble *provider.Trouble, hidden *provider.Hidden) {
	flags.DurationVar(&hidden.After, "hidden-after", 0, "halve the rate of requests then, and send no limits (0: never)")
	flags.DurationVar(&hidden.For, "hidden-for", 0, "the time for which it is halved")
	flags.Float64Var(&trouble.Refuse, "trouble-refuse", 0,
		"share of the requests to refuse with a 429 that names a time")
	flags.DurationVar(&trouble.For, "trouble-refuse-for", 0, "the time that the 429 names")
	flags.Float64Var(&trouble.Fail, "trouble-fail", 0, "share of the requests to answer with a 500")
	flags.Float64Var(&trouble.Drop, "trouble-drop", 0, "share of the requests to close the connection of")
}

func addTenant(cfg *provider.Config, text string) error {
	var quota provider.Quota
	name, limit, ok := strings.Cut(text, "=")
	if _, err := fmt.Sscanf(limit+"\n", "%g/%g\n", &quota.Rate, &quota.Capacity); err != nil || !ok || name == "" {
		return fmt.Errorf("%q is not name=rate/capacity, such as acme=10/5", text)
	}
	if cfg.Tenants == nil {
		cfg.Tenants = map[string]provider.Quota{}
	}
	cfg.Tenants[name] = quota
	return nil
}
