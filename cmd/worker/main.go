// Command worker runs Headway's workers: `worker run` serves the queue, and `worker demo` shows a fleet at work with
// nothing installed. `worker check` validates the settings and pings the services. `worker explain` and `worker limits
// show` show why tasks wait. `worker limits` changes limits while the fleet runs. `worker dead` lists, exports and
// requeues the tasks that failed for good. `worker dashboard` serves a page of all that, and `worker dev` runs
// everything in one process.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/headway-go/headway/internal/cli"
	"github.com/headway-go/headway/internal/config"
)

func main() { os.Exit(cli.Main(rootCommand)) }

func rootCommand(env cli.Environment) *cobra.Command {
	root := &cobra.Command{
		Use:   "worker",
		Short: "Run jobs that call rate-limited APIs, at exactly the limit",
		Long: `Worker takes tasks from the queue and runs them, at exactly the limit that the whole fleet shares.

Begin with "worker demo": it needs no services and shows a fleet at work within a minute. "worker dev" runs everything
that a program of yours needs in one process.

Settings come from headway.yaml (limits, queues, concurrency) and from the environment:
  REDIS_URL        the queue      (default that of a running "worker dev", else redis://127.0.0.1:6379/0; rediss:// for
                   TLS)
  MONGODB_URI      the buckets, results and dead tasks; without it buckets are in Redis, and there are no batches
  OPENAI_API_KEY   the provider's key; it never leaves the worker. Without it a worker makes HTTP requests only,
                   and does not start where http.allow_hosts lists no host
  OPENAI_BASE_URL  the provider   (default: OpenAI's own)

Exit codes: 0 all went well, 1 the work went wrong, 2 a fault in the command line or the settings,
3 a service could not be reached, 130 interrupted.`,
	}
	root.AddCommand(runCommand(env), demoCommand(env), checkCommand(env), explainCommand(env), limitsCommand(env),
		deadCommand(env), dashboardCommand(env), devCommand(env))
	return root
}

func configFlag(c *cobra.Command, file *string) {
	c.Flags().StringVar(file, "config", config.FileDefault, "the `file` with limits, queues and concurrency")
}
