// Package capacity has the command that plans capacity: `headway simulate`.
package capacity

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/headway-go/headway/internal/products/simulate"
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/setup/config"
	"github.com/headway-go/headway/internal/text/period"
	"github.com/headway-go/headway/reservations"
)

// variantsMost is for how many limits a larger plan is simulated.
const variantsMost = 4

// Commands returns the commands of this package.
func Commands(env cli.Environment) []*cobra.Command { return []*cobra.Command{simulateCommand(env)} }

// job is one run of `headway simulate`.
type job struct {
	env cli.Environment

	file, plan   string
	trace, batch string
	arrive       string
	during       time.Duration
	backlog      int
	calls        callFlags
	workers      int
	refuse       float64
	retryAfter   time.Duration
	seed         uint64
	from         string
	large        bool
	compare      bool
	asJSON       bool
	chart        string
}

func simulateCommand(env cli.Environment) *cobra.Command {
	j := &job{env: env}
	c := &cobra.Command{
		Use:   "simulate",
		Short: "Plan capacity: when are calls done, how long do they wait, what would a larger plan change",
		Long: `Simulate plays calls against the limits of headway.yaml in virtual time: a day takes a second. It needs no
services and calls no provider. It shows when all calls are done, how long they wait, how much of each meter is used,
which meter is the scarce one, and what each limit doubled or one more key of the provider would change.

Calls come from one of these:
  --arrive 9/s --for 24h   at random times (Poisson), and --backlog N at the start
  --trace calls.jsonl      recorded calls, a JSON object a line:
                             {"at": "2026-01-05T08:00:00Z", "limit": "openai", "tokens": 1500, "latency": "2.5s"}
                           at is a moment, or seconds since the start. limits is a list where a call takes from several.
                           Other fields are used, charge, flow, priority and urgent. Flags say what a line leaves out.
  --batch requests.jsonl   all requests of a file for "headway batch", at the start, with the same estimates

Tokens, --used and --latency are a number or a range, e.g. 500..2500. --used may be a part of the estimate: 80% or
60%..90%; these tokens come back when a call ends. A call takes one of requests and requests_per_day; --charge says what
it takes of other meters. The same seed has the same calls, and the same calls have the same result.

The rules are the rules of a fleet: buckets, flows, priorities, windows, calls in flight, blocks. A simulation leaves
out the time that a delivery takes (some milliseconds), faults and retries. docs/capacity.md explains the output.`,
		Example: `  headway simulate --arrive 3/s --tokens 900 --latency 2s..20s --for 24h
  headway simulate --backlog 5000 --tokens 1500 --used 60%..90% --workers 3
  headway simulate --batch examples/godoc.jsonl --latency 4s
  headway simulate --trace examples/capacity/calls.jsonl --chart day.svg
  headway simulate --arrive 3/s --tokens 900 --plan examples/capacity/plan.yaml
  headway simulate --arrive 3/s --tokens 1500 --json | jq .variants`,
		RunE: func(c *cobra.Command, _ []string) error { return j.run(c.Context()) },
	}
	f := c.Flags()
	f.StringVar(&j.file, "config", config.FileDefault, "the `file` with the limits")
	f.StringVar(&j.plan, "plan", "", "another `file` with limits of the same names, to compare with")
	f.StringVar(&j.arrive, "arrive", "", "how many calls arrive on average, as a `rate` such as 9/s or 500/m")
	j.during, j.retryAfter = 24*time.Hour, 3*time.Second
	f.Var((*period.Flag)(&j.during), "for", "how long calls arrive")
	f.IntVar(&j.backlog, "backlog", 0, "how many calls are there at the start")
	f.StringVar(&j.trace, "trace", "", "a `file` of recorded calls; - reads standard input")
	f.StringVar(&j.batch, "batch", "", "a `file` for \"headway batch\"; - reads standard input")
	j.calls.flags(f)
	f.IntVar(&j.workers, "workers", 0,
		"how many workers run the calls, each with the concurrency of the file; 0 has always one free")
	f.Float64Var(&j.refuse, "refuse", 0, "the share of the calls that the provider refuses with a 429, e.g. 0.07")
	f.Var((*period.Flag)(&j.retryAfter), "retry-after", "the time that a refusal names")
	f.Uint64Var(&j.seed, "seed", 1, "the `number` that makes what happens by chance")
	f.StringVar(&j.from, "from", "", "the `moment` of the start, on which windows depend "+
		"(default that of the trace, else "+simulate.StartDefault().Format(time.RFC3339)+")")
	f.BoolVar(&j.large, "allow-large", false, "allow calls that reserve more than a capacity: they wait for a full bucket")
	f.BoolVar(&j.compare, "compare", true, "simulate what each limit doubled and one more key would change")
	f.StringVar(&j.chart, "chart", "", "write a chart to this `file`, as SVG; - is standard output, instead of the table")
	f.BoolVar(&j.asJSON, "json", false, "print the result as one JSON object")
	return c
}

func (j *job) run(ctx context.Context) error {
	if err := j.checkFlags(); err != nil {
		return err
	}
	settings, err := config.Load(j.file)
	if err != nil {
		return err
	}
	simulated := simulate.Config{
		Seed: j.seed, Slots: j.workers * settings.Concurrency, Refuse: j.refuse, RetryAfter: j.retryAfter, Large: j.large,
	}
	calls, err := j.load(ctx, settings, &simulated)
	if err != nil {
		return err
	}
	base, err := simulate.Run(settings.Limits, calls, simulated)
	if err != nil {
		return asUsage(err)
	}
	r := report{
		Seed: j.seed, From: simulated.Start, concurrency: settings.Concurrency, result: resultOf(base),
	}
	if r.Variants, err = j.variants(ctx, settings.Limits, calls, base, simulated); err != nil {
		return err
	}
	if err = j.draw(base); err != nil {
		return err
	}
	switch {
	case j.asJSON:
		return cli.JSON(j.env.Out).Encode(r)
	case j.chart == "-":
		return nil
	}
	r.print(j.env)
	return nil
}

// variants simulates the calls with other limits.
func (j *job) variants(
	ctx context.Context, limits []reservations.Limit, calls []simulate.Call, base simulate.Result, c simulate.Config,
) (all []variant, err error) {
	var planned []simulate.Variant
	if j.compare {
		planned = simulate.Variants(limits, calls, base, variantsMost)
	}
	if j.plan != "" {
		other, err := config.Load(j.plan)
		if err != nil {
			return nil, err
		}
		planned = append(planned, simulate.Variant{Name: "plan " + j.plan, Limits: other.Limits})
	}
	for _, v := range planned {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		r, err := simulate.Run(v.Limits, calls, c)
		one := variant{Name: v.Name}
		if err != nil {
			one.Problem = err.Error()
		} else {
			result := resultOf(r)
			one.Result = &result
		}
		all = append(all, one)
	}
	return all, nil
}

// asUsage makes the fault of a call one of the command line: nothing was done.
func asUsage(err error) error {
	if err == nil {
		return nil
	}
	return &cli.UsageError{Err: fmt.Errorf("%w", err)}
}
