// Command enqueue puts tasks into the queue: a whole file in the OpenAI Batch format, or one request.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/headway-go/headway/internal/cli"
)

func main() { os.Exit(cli.Main(rootCommand)) }

func rootCommand(env cli.Environment) *cobra.Command {
	root := &cobra.Command{
		Use:   "enqueue",
		Short: "Put tasks into the queue",
		Long: `Enqueue puts requests into the queue; workers ("worker run") send them at exactly the limit they name.

Everything is checked before anything is sent: the file's lines, the limit, and that each request can ever be served.

Settings come from headway.yaml (limits) and from the environment:
  REDIS_URL    the queue    (default redis://127.0.0.1:6379/0; rediss:// for TLS)
  MONGODB_URI  the batches and their answers, and the buckets, which are in Redis without it; "enqueue one" does not need it

Exit codes: 0 all went well, 1 some requests could not be enqueued or (with --wait) failed, or faulty lines were skipped, 2 a fault in the command
line, the settings or the file: nothing was enqueued, 3 a service could not be reached, 130 interrupted.`,
	}
	root.AddCommand(batchCommand(env), statusCommand(env), resultsCommand(env), retryCommand(env), cancelCommand(env), oneCommand(env), answerCommand(env))
	return root
}
