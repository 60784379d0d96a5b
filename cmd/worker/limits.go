package main

import (
	"github.com/spf13/cobra"

	"github.com/headway-go/headway/internal/cli"
)

func limitsCommand(env cli.Environment) *cobra.Command {
	c := &cobra.Command{
		Use:     "limits",
		Short:   "See what the limits are doing",
		Example: `  worker limits show`,
	}
	c.Args = cli.Args(cobra.NoArgs)
	c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	c.AddCommand(newLimitsShow(env))
	return c
}
