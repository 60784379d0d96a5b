package main

import (
	"encoding/json"
	"fmt"

	"github.com/headway-go/headway/internal/cli"
	"github.com/spf13/cobra"

	"github.com/headway-go/headway/bench/contest"
)

// workerCommand is what the runner starts: one worker process of a contestant.
func workerCommand(environment cli.Environment) *cobra.Command {
	return &cobra.Command{
		Use: "worker", Hidden: true, Args: cli.Args(cobra.NoArgs), Short: "Be a worker process of a run",
		RunE: func(c *cobra.Command, _ []string) error {
			var env contest.Env
			if err := json.Unmarshal([]byte(environment.Getenv(contest.EnvVariable)), &env); err != nil {
				return &cli.UsageError{Err: fmt.Errorf("%s: %w", contest.EnvVariable, err)}
			}
			for _, one := range contestants() {
				if one.Name() != env.Contestant {
					continue
				}
				probe := contest.NewProbe(env, environment.Out)
				defer probe.Close()
				return one.Work(c.Context(), env, probe)
			}
			return &cli.UsageError{Err: fmt.Errorf("there is no contestant %q", env.Contestant)}
		},
	}
}
