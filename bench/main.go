// Command bench compares Headway with its alternatives. See its help.
package main

import (
	"os"

	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/spf13/cobra"
)

func main() {
	os.Exit(cli.Main(rootCommand))
}

func rootCommand(env cli.Environment) *cobra.Command {
	c := &cobra.Command{
		Use:   "bench",
		Short: "Compare Headway with its alternatives",
		Long: `Bench gives the same work to Headway and to its alternatives, in turn, with a provider that counts the calls.
It writes docs/benchmarks.md, with plots, and docs/benchmarks/results.json.

It needs redis-server on PATH (each run has a server of its own) and MongoDB at MONGODB_URI.
"make bench" provides both.`,
		Example: `  make bench                                    all works, about an hour
  make bench QUICK=1                            a look, about ten minutes
  make bench ONLY=burst                         one work, all contestants
  make bench ONLY=mixed,slow,headway,bullmq-spaced     two works, two contestants
  go run . run --only burst,headway --reps 1    the same by hand, in the folder bench`,
	}
	c.AddCommand(runCommand(env), reportCommand(env), listCommand(env), workerCommand(env))
	return c
}
