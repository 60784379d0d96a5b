// Command worker runs Headway's workers: `worker demo` shows a fleet at work with nothing installed, `worker run`
// serves the queue, `worker check` validates the settings and pings the services, `worker explain` and `worker limits
// show` show why tasks wait, `worker limits` changes limits while the fleet runs, and `worker dead` lists, exports and
// requeues the tasks that failed for good.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/headway-go/headway/internal/cli"
	"github.com/headway-go/headway/internal/config"
	"github.com/headway-go/headway/internal/demo"
)

func main() { os.Exit(cli.Main(rootCommand)) }

func rootCommand(env cli.Environment) *cobra.Command {
	root := &cobra.Command{
		Use:   "worker",
		Short: "Run jobs that call rate-limited APIs, at exactly the limit",
		Long: `Worker takes tasks from the queue and runs them, at exactly the limit that the whole fleet shares.

Begin with "worker demo": it needs no services and shows a fleet at work within a minute.

Settings come from headway.yaml (limits, queues, concurrency) and from the environment:
  REDIS_URL        the queue      (default redis://127.0.0.1:6379/0; rediss:// for TLS)
  MONGODB_URI      the buckets, results and dead tasks; without it buckets are in Redis, and there are no batches
  OPENAI_API_KEY   the provider's key; it never leaves the worker. Without it a worker makes HTTP requests only,
                   and does not start where http.allow_hosts lists no host
  OPENAI_BASE_URL  the provider   (default: OpenAI's own)

Exit codes: 0 all went well, 1 the work went wrong, 2 a fault in the command line or the settings,
3 a service could not be reached, 130 interrupted.`,
	}
	root.AddCommand(runCommand(env), demoCommand(env), checkCommand(env), explainCommand(env), limitsCommand(env),
		deadCommand(env))
	return root
}

func configFlag(c *cobra.Command, file *string) {
	c.Flags().StringVar(file, "config", config.FileDefault, "the `file` with limits, queues and concurrency")
}

func demoCommand(env cli.Environment) *cobra.Command {
	var asJSON, keep bool
	c := &cobra.Command{
		Use:   "demo",
		Short: "Watch a fleet push some 400 chat requests through a provider's limits",
		Long: `Demo needs no services: it brings a queue, a shared bucket, three workers, and an OpenAI-compatible
provider on loopback that enforces its limits by its own clock and counts every violation. It takes about 40 seconds.

Each request reserves what it may use at most and uses less, so settlements matter: what a call did not need
lets waiting tasks start sooner. The exit code is 1 when there was a violation, or a task was lost or failed.`,
		Example: `  worker demo
  worker demo --keep-estimate     # a provider that counts what was reserved, not what was used
  worker demo --json | jq .utilization`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			s := demo.Settings{
				KeepEstimate: keep, View: cli.Control(env.Err),
				Terminal: cli.Fits(env.Err, demo.ColumnsMin, demo.RowsMin),
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
	return c
}

func printReport(env cli.Environment, r demo.Report, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(env.Out).Encode(r)
	}
	fmt.Fprintln(env.Err)
	return r.Write(env.Out)
}
