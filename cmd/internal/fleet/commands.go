// Package fleet has the commands that run a fleet of workers, and show and change what it does.
package fleet

import (
	"github.com/spf13/cobra"

	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/headway-go/headway/internal/setup/config"
)

// Running returns the commands that start something: `headway init`, worker, dev, demo, check and
// version.
func Running(env cli.Environment) []*cobra.Command {
	return []*cobra.Command{
		initCommand(env), workerCommand(env), devCommand(env), demoCommand(env), checkCommand(env), versionCommand(env),
	}
}

// Watching returns the commands that show and change a running fleet: `headway dashboard`,
// explain, limits, dead, reload, pause, unpause and delete.
func Watching(env cli.Environment) []*cobra.Command {
	return []*cobra.Command{
		dashboardCommand(env), explainCommand(env), limitsCommand(env), deadCommand(env), reloadCommand(env),
		pauseCommand(env), unpauseCommand(env), deleteCommand(env),
	}
}

func configFlag(c *cobra.Command, file *string) {
	c.Flags().StringVar(file, "config", config.FileDefault, "the `file` with limits, queues and concurrency")
}
