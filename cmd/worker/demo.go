package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/headway-go/headway/internal/cli"
	"github.com/headway-go/headway/internal/demo"
)

func demoCommand(env cli.Environment) *cobra.Command {
	var asJSON, keep bool
	c := &cobra.Command{
		Use:   "demo",
		Short: "Watch a fleet push some 400 chat requests through a provider's limits",
		Long: `Demo needs no services: it brings a queue, a shared bucket, three workers, and an OpenAI-compatible provider on
loopback that enforces its limits by its own clock and counts every violation. It takes about 40 seconds.

Each request reserves what it may use at most and uses less, so settlements matter: what a call did not need
lets waiting tasks start sooner. The exit code is 1 when there was a violation, or a task was lost or failed.`,
		Example: `  worker demo
  worker demo --keep-estimate     # a provider that counts what was reserved, not what was used
  worker demo --json | jq .utilization`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			s := demo.Settings{KeepEstimate: keep, View: cli.Control(env.Err), Terminal: cli.Fits(env.Err, demo.ColumnsMin, demo.RowsMin)}
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
	return c
}

func printReport(env cli.Environment, r demo.Report, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(env.Out).Encode(r)
	}
	fmt.Fprintln(env.Err)
	return r.Write(env.Out)
}
