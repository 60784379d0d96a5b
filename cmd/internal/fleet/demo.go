package fleet

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/headway-go/headway/internal/products/demo"
	"github.com/headway-go/headway/internal/setup/cli"
)

func demoCommand(env cli.Environment) *cobra.Command {
	var asJSON, keep, ui bool
	var listen pageListener
	c := &cobra.Command{
		Use:   "demo",
		Short: "Watch a fleet push some 400 chat requests through a provider's limits",
		Long: `Demo needs no services: it brings a queue, a shared bucket, three workers, and an OpenAI-compatible
provider on loopback that enforces its limits by its own clock and counts every violation. It takes about 40 seconds.

Each request reserves what it may use at most and uses less, so settlements matter: what a call did not need
lets waiting tasks start sooner. The exit code is 1 when more started than the limit allows, by the bucket's own clock,
or when a task was lost or failed. The provider counts calls when they arrive: on a machine that stands still for a
moment a call may arrive late and meet others. The report shows both figures, and the longest such moment.`,
		Example: `  headway demo
  headway demo --keep-estimate     # the provider counts estimates, not usage
  headway demo --ui                # with the page, until Ctrl-C
  headway demo --json | jq .utilization`,
		RunE: func(c *cobra.Command, _ []string) error {
			s := demo.Settings{KeepEstimate: keep, View: env.Err}
			if ui {
				return demoWithPage(c.Context(), env, s, listen, asJSON)
			}
			report, err := demo.Run(c.Context(), s)
			if report.Enqueued == 0 {
				return err
			}
			if printErr := printReport(env, report, asJSON); printErr != nil {
				return printErr
			}
			if err != nil {
				return err
			}
			return report.Err()
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the report as one JSON object on standard output")
	c.Flags().BoolVar(&keep, "keep-estimate", false, "the provider counts the estimate and never corrects it")
	c.Flags().BoolVar(&ui, "ui", false,
		"serve the page of the fleet beside it, also when the tasks have ended, until Ctrl-C")
	listen = pageFlag(c)
	return c
}

// demoWithPage is a demo with its page, until ctx ends. What was not done by then is no fault.
func demoWithPage(ctx context.Context, env cli.Environment, s demo.Settings, listen pageListener, asJSON bool) error {
	on, err := listen(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = on.Close() }()
	fmt.Fprintf(env.Err, "the page is at http://%s, until Ctrl-C\n", on.Addr())
	var ended *demo.Report
	var failed error
	s.Page = on
	s.Ended = func(r demo.Report) {
		ended, failed = &r, printReport(env, r, asJSON)
		fmt.Fprintf(env.Err, "\nthe page is still at http://%s, until Ctrl-C\n", on.Addr())
	}
	if _, err = demo.Run(ctx, s); ended == nil || err != nil {
		return err
	}
	return errors.Join(failed, ended.Err())
}

func printReport(env cli.Environment, r demo.Report, asJSON bool) error {
	if asJSON {
		return cli.JSON(env.Out).Encode(r)
	}
	fmt.Fprintln(env.Err)
	return r.Write(env.Out)
}
