package main

import (
	"github.com/headway-go/headway/internal/setup/cli"
	"github.com/spf13/cobra"

	"github.com/headway-go/headway/bench/contest"
	"github.com/headway-go/headway/bench/field"
)

// workerCommand is the command of one worker process of a contestant. The runner starts it.
func workerCommand(env cli.Environment) *cobra.Command {
	return &cobra.Command{
		Use: "worker", Hidden: true, Short: "Run a worker process of a run",
		RunE: func(c *cobra.Command, _ []string) error {
			return field.Work(c.Context(), env.Getenv(contest.EnvVariable), env.Out)
		},
	}
}
