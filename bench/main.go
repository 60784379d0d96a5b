// Command bench measures Headway beside what people would use instead. See its help.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/headway-go/headway/internal/cli"
)

func main() {
	os.Exit(cli.Main(rootCommand))
}

func rootCommand(env cli.Environment) *cobra.Command {
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure Headway beside what people would use instead",
		Long: `Bench gives the same work to Headway and to what people would use instead, in turn, with the same provider that counts the calls, and
writes down what came of it: docs/benchmarks.md, with plots, and docs/benchmarks/results.json.

It needs redis-server on PATH (each run has a server of its own) and MongoDB at MONGODB_URI. "make bench" sees to both.`,
		Example: `  make bench                                    everything, about an hour
  make bench QUICK=1                            a look, about ten minutes
  make bench ONLY=burst                         one work, all contestants
  make bench ONLY=mixed,slow,headway,bullmq-spaced     two works, two contestants
  go run . run --only burst,headway --reps 1    the same by hand, in the folder bench`,
	}
	c.AddCommand(runCommand(env), reportCommand(env), listCommand(env), workerCommand(env))
	return c
}
